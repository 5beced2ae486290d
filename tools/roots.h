/* roots.h - where a program may keep pointers; see roots.c */
#ifndef TOOLS_ROOTS_H
#define TOOLS_ROOTS_H

#include "tools/model.h"

/*
 * Before the target is held: ends the command if the copies of these parts
 * (MODEL_*) need more memory than there is, and has memory for whole copies.
 */
void roots_prepare(struct model *model, unsigned parts);

/*
 * While the target stands still: copy the heap and everything below, whole or,
 * for MODEL_POINTERS, packed.
 */
void roots_copy(struct model *model, unsigned parts);

/* The memory of the target's logs. */
void roots_copy_logs(struct model *model);

enum root_kind {
	ROOT_MEMORY,
	ROOT_INSIDE /* registers and stack of a thread inside the library */
};
typedef void root_func(struct model *model, const uint64_t *words, size_t n,
    uint64_t at, enum root_kind kind);

/*
 * Calls f for each piece of memory that is looked through for pointers but is
 * no block of the heap: n words, which are at at there (registers: 0).
 */
void roots_each(struct model *model, root_func *f);

/* Is the address in memory that the library keeps for itself? */
bool roots_is_meta(struct model *model, uint64_t at);

#endif
