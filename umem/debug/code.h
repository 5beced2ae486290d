/*
 * code.h - the code of the program: the frames of its stacks, its objects
 *
 * Selects the header for the architecture, and declares the look-up of the
 * object (the program or a shared library) that contains an address.
 */
#ifndef UMEM_CODE_H
#define UMEM_CODE_H

#include <dlfcn.h>

#include "vmem/base.h"

#if defined(__x86_64__)
#include "umem/debug/stack_x86_64.h"
#elif defined(__aarch64__)
#include "umem/debug/stack_aarch64.h"
#endif

/* glibc 2.35 and later.  It takes no lock and may be called anywhere. */
extern int _dl_find_object(void *address, struct dl_find_object *found)
    __attribute__((weak));

/* Finds the object that contains pc.  False: none, or libc cannot tell. */
static inline bool
code_find_object(uintptr_t pc, struct dl_find_object *found)
{
	return _dl_find_object != NULL &&
	       _dl_find_object((void *)pc, found) == 0;
}

#endif
