/*
 * object.h - the object (the program or a shared library) of an address; see
 * object.c
 */
#ifndef UMEM_OBJECT_H
#define UMEM_OBJECT_H

#include <link.h>

#include "vmem/base.h"

struct code_object {
	const char *path;            /* "": the program; NULL: not known */
	const char *start;           /* of its file in memory; path is not "" */
	uintptr_t bias;              /* address minus address in the file */
	const uint8_t *eh_frame_hdr; /* NULL: there is none */
	/* Without eh_frame_hdr: the records of all functions; or NULL. */
	const uint8_t *eh_frame;
	size_t eh_frame_bytes;
};

/* Finds the object that contains pc.  False: none, or libc cannot tell. */
bool code_find_object(uintptr_t pc, struct code_object *object);

/*
 * Returns the section headers of a mapped file, which may be any file, and
 * stores their number; NULL: there are none.
 */
const ElfW(Shdr) * file_sections(const char *file, size_t bytes, unsigned *n);

#endif
