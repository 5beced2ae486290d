/* wrappers.h - allocation wrappers without a name; see wrappers.c */
#ifndef TOOLS_WRAPPERS_H
#define TOOLS_WRAPPERS_H

#include "tools/inspect/model/model.h"

/* A stack that has allocated blocks of this size. */
struct wrapper_stack {
	const uint64_t *stack;
	unsigned depth;
	uint64_t size;
	uint64_t n; /* blocks */
};

/*
 * Finds wrappers by the stacks of the live samples, or by these stacks if there
 * are no samples.  It searches once, and only when one of these stacks has a
 * call site without a name: names of other stacks may take long to look up.
 */
void wrappers_find(
    struct model *model, const struct wrapper_stack *stacks, size_t n);

/* Finds wrappers by the stacks of the live samples, if there are any. */
void wrappers_find_by_samples(struct model *model);

/*
 * Replaces the wrappers by those that the live samples show now.  Returns
 * whether they are others.
 */
bool wrappers_find_again(struct model *model);

/* Is this return address in a wrapper that was found? */
bool wrappers_have(const struct model *model, uint64_t pc);

#endif
