/* flame.h - flame graphs of blocks by their stacks; see flame.c */
#ifndef TOOLS_FLAME_H
#define TOOLS_FLAME_H

#include "tools/inspect/sites/sites.h"

/* Writes a page with the graph and the table of the call sites. */
void flame_write(struct sites *sites);

/* Writes a line for each stack: "outermost;...;innermost bytes". */
void flame_write_folded(const struct sites *sites);

#endif
