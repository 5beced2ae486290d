/* flame.h - flame graphs of blocks by their stacks; see flame.c */
#ifndef TOOLS_FLAME_H
#define TOOLS_FLAME_H

#include "tools/inspect/report/look.h"

/*
 * Writes a page with a graph of the stacks of a look and the table of its call
 * sites; verb: " leaked".
 */
void flame_write(const struct look *look, const char *title, const char *verb);

/* Writes a line for each stack: "outermost;...;innermost bytes". */
void flame_write_folded(const struct look *look);

#endif
