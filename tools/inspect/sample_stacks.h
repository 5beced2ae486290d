/* sample_stacks.h - live samples by their stacks; see sample_stacks.c */
#ifndef TOOLS_SAMPLE_STACKS_H
#define TOOLS_SAMPLE_STACKS_H

#include "tools/inspect/model.h"

/* The live samples with one stack. */
struct sample_stack {
	const struct sample *newest, *oldest;
	size_t n;
	double nblocks, bytes; /* that they stand for */
};

/*
 * Returns the stacks in the order of their bytes, the largest first, and sets
 * *n.  The caller frees them.
 */
struct sample_stack *sample_stacks_find(struct model *model, size_t *n);

#endif
