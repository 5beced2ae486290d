/*
 * sample_stacks.c - live samples by their stacks
 *
 * A block of s bytes becomes a sample with the probability p = 1 - exp(-s/N), N
 * being the sampling interval, so a sample stands for 1/p blocks.  The sum of
 * these weights is the expected number of blocks of the program.  Of a block
 * that realloc() has changed in place, s is the size that the library counted.
 */
#include <stdlib.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/sample_stacks.h"

static int
order_by_stack(const void *a, const void *b)
{
	const struct sample *x = *(const struct sample *const *)a;
	const struct sample *y = *(const struct sample *const *)b;

	return audit_order_stacks(x->depth, x->stack, y->depth, y->stack);
}

static int
order_stacks(const void *a, const void *b)
{
	const struct sample_stack *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->newest->record < y->newest->record ? -1 : 1;
}

static void
stack_add(struct sample_stack *stack, const struct sample *s)
{
	double weight = sample_weight(s);

	assert(s->live);
	stack->n++;
	stack->nblocks += weight;
	stack->bytes += weight * (double)s->size;
	if (stack->newest == NULL || s->time > stack->newest->time)
		stack->newest = s;
	if (stack->oldest == NULL || s->time < stack->oldest->time)
		stack->oldest = s;
	assert(stack->oldest->time <= stack->newest->time);
}

struct sample_stack *
sample_stacks_find(struct model *model, size_t *nstacks)
{
	const struct sample **live =
	    xalloc((model->nsamples + 1) * sizeof(*live));
	struct sample_stack *stacks = NULL;
	size_t n = 0, capacity = 0;

	*nstacks = 0;
	for (size_t i = 0; i < model->nsamples; i++)
		if (sample_is_live(&model->samples[i]))
			live[n++] = &model->samples[i];
	qsort(live, n, sizeof(*live), order_by_stack);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || order_by_stack(&live[i - 1], &live[i]) != 0) {
			ARRAY_GROW(stacks, *nstacks, capacity);
			stacks[(*nstacks)++] = (struct sample_stack){0};
		}
		stack_add(&stacks[*nstacks - 1], live[i]);
	}
	assert(*nstacks <= n);
	free(live);
	if (*nstacks != 0)
		qsort(stacks, *nstacks, sizeof(*stacks), order_stacks);
	return stacks;
}

struct sample_stack
sample_stacks_sum(const struct sample_stack *stacks, size_t n)
{
	struct sample_stack all = {0};

	for (size_t i = 0; i < n; i++) {
		all.n += stacks[i].n;
		all.nblocks += stacks[i].nblocks;
		all.bytes += stacks[i].bytes;
	}
	return all;
}
