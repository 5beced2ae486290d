/* module.h - the files whose code the process executes; see module.c */
#ifndef UMEM_MODULE_H
#define UMEM_MODULE_H

#include "vmem/base.h"

struct modules;

/*
 * Returns the program and its libraries, as the kernel has mapped them now, or
 * NULL: they cannot be read.  modules_delete() frees them.
 */
struct modules *modules_create(void);
void modules_delete(struct modules *modules);

/*
 * Returns the name of the module that has this address, and stores the address
 * in its file, as addr2line takes it.  Returns NULL if no module has it.  The
 * name is that of the file without its folder, or the path if another module
 * has the same name.  The module counts as used.
 */
const char *modules_find(
    struct modules *modules, uintptr_t address, uintptr_t *in_file);

/* Returns the inode of the file that is mapped at this address; 0: none. */
uint64_t module_inode(uintptr_t address);

/* Bytes of the text of a build ID, with its final 0. */
#define MODULE_ID_BYTES 129

struct module_used {
	const char *name, *path;
	uintptr_t linked_at;      /* address of its start in the file */
	char id[MODULE_ID_BYTES]; /* build ID in hexadecimal; "": not known */
};

/*
 * Calls f for each module that is used.  The build ID is not known if the file
 * has none, or if another file has its path now.
 */
void modules_each_used(struct modules *modules,
    void (*f)(const struct module_used *, void *arg), void *arg);

#endif
