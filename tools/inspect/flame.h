/* flame.h - a flame graph of the live samples in a page; see flame.c */
#ifndef TOOLS_FLAME_H
#define TOOLS_FLAME_H

#include "tools/inspect/sample_stacks.h"

/* The live samples with one stack. */
struct flame_stack {
	const char **names; /* of the functions, outermost first */
	size_t n;
	double bytes, blocks; /* that they stand for */
};

/* Returns the names of the functions of a stack, and sets *n. */
const char **flame_names(
    struct target *target, const uint64_t *stack, unsigned depth, size_t *n);

/* The style of a page with a graph. */
extern const char flame_style[];

/* Writes the graph into a page. */
void flame_write_graph(const struct flame_stack *stacks, size_t n);

/* Writes a whole page. */
void flame_write(
    struct model *model, const struct sample_stack *stacks, size_t n);

#endif
