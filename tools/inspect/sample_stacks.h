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

/* Do n samples, which stand for nblocks, stand for others than themselves? */
static inline bool
samples_are_estimates(size_t n, double nblocks)
{
	return nblocks - (double)n >= 0.5;
}

static inline bool
sample_stack_is_estimated(const struct sample_stack *stack)
{
	return samples_are_estimates(stack->n, stack->nblocks);
}

/*
 * Returns the stacks in the order of their bytes, the largest first, and sets
 * *n.  The caller frees them.
 */
struct sample_stack *sample_stacks_find(struct model *model, size_t *n);

/* Returns the sums of the stacks. */
struct sample_stack sample_stacks_sum(
    const struct sample_stack *stacks, size_t n);

#endif
