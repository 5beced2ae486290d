/* modules.h - programs and libraries in the target's memory; see modules.c */
#ifndef TOOLS_MODULES_H
#define TOOLS_MODULES_H

#include "tools/inspect/target/target.h"

/* A mapped ELF file: the program or a library. */
struct module {
	uint64_t start, end; /* in the target */
	uint64_t bias;       /* start minus its address in the file */
	struct mapping file; /* its first page */
	size_t id_bytes;     /* of the build ID; 0: the file has none */
	unsigned char id[64];
	uint64_t id_at;  /* address of the build ID in the target */
	bool has_loader; /* PT_INTERP names a dynamic loader for it */
};

/* Returns all modules, by address, and sets *n to their number. */
const struct module *modules_read(struct target *target, size_t *n);

/* Returns the module that has this address, or NULL. */
const struct module *module_find(struct target *target, uint64_t at);

#endif
