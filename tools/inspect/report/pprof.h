/* pprof.h - blocks by their stacks as a profile for pprof; see pprof.c */
#ifndef TOOLS_PPROF_H
#define TOOLS_PPROF_H

#include "tools/inspect/sites/sites.h"

/*
 * Writes the profile to standard output: the blocks in use, and sums of all
 * that were allocated.
 */
void pprof_write(const struct sites *sites, const struct sites *allocated);

#endif
