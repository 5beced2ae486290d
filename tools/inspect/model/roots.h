/* roots.h - memory where a program may keep pointers; see roots.c */
#ifndef TOOLS_ROOTS_H
#define TOOLS_ROOTS_H

#include "tools/inspect/model/model.h"

/* Memory in bytes that a search of these parts (MODEL_*) reads and needs. */
struct roots_size {
	uint64_t present; /* in the target */
	uint64_t need;    /* for copies, and for the tables built from them */
	uint64_t least;   /* if the target is copied, and read by lines */
};

/* Returns the bytes of the library's structures: at most the target's. */
uint64_t roots_own_bytes(struct model *model);

/* Estimates, before the target is held. */
struct roots_size roots_measure(struct model *model, unsigned parts);

/*
 * Does the copy of the target (target_make_copy()) lack memory that these parts
 * need?
 */
bool roots_are_lacking(struct model *model, unsigned parts);

/* Copies this memory, while the target is stopped. */
void roots_copy_lacking(struct model *model, unsigned parts);

/*
 * Called while the target, or its copy, is stopped.  Copies the heap and the
 * roots, unpacked or, for MODEL_POINTERS, packed.
 */
void roots_copy(struct model *model, unsigned parts);

enum root_kind {
	ROOT_MEMORY,
	ROOT_INSIDE /* registers and stack of a thread inside the library */
};
typedef void root_func(struct model *model, const uint64_t *words, size_t n,
    uint64_t at, enum root_kind kind);

/*
 * Calls f for each piece of memory that is searched for pointers and is not a
 * block of the heap: n words at the address at of the target (registers: 0).
 */
void roots_each(struct model *model, root_func *f);

/* Calls f for the words of [start, end) that this command holds. */
void roots_words(struct model *model, root_func *f, uint64_t start,
    uint64_t end, enum root_kind kind);

/* Is the address in memory that the library keeps for itself? */
bool roots_is_meta(struct model *model, uint64_t at);

#endif
