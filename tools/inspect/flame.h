/* flame.h - a page with a flame graph of the live samples; see flame.c */
#ifndef TOOLS_FLAME_H
#define TOOLS_FLAME_H

#include "tools/inspect/sample_stacks.h"

/* Writes the page to standard output. */
void flame_write(
    struct model *model, const struct sample_stack *stacks, size_t n);

#endif
