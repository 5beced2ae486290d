/* leaks.h - leaks of a model with MODEL_POINTERS; see leaks.c */
#ifndef TOOLS_LEAKS_H
#define TOOLS_LEAKS_H

#include "tools/inspect/model/model.h"

/* Marks all chunks and blocks that the program can reach. */
void leaks_mark(struct model *model);

/* Calls f for each leak: chunk i of a slab, or a large block. */
typedef void leaks_func(
    struct model *model, struct slab *slab, struct large *large, unsigned i);
void leaks_each(struct model *model, leaks_func *f);

/* Takes a leak, and the blocks reached from it, out of the leaks. */
void leaks_excuse(
    struct model *model, struct slab *slab, struct large *large, unsigned i);

/*
 * Divides the leaks, after leaks_mark(), into direct leaks, to which no other
 * block points, and indirect leaks, which can be reached from a direct leak.
 * Each ring without another owner has one direct leak.
 */
void leaks_divide(struct model *model);

/*
 * Is a leak, given as to leaks_func, indirect?  If it is direct, stores the
 * bytes of the indirect leaks that were found through it.
 */
bool leaks_is_indirect(const struct model *model, const struct slab *slab,
    const struct large *large, unsigned i, uint64_t *held);

#endif
