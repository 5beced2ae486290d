/* pprof.h - live samples as a profile for pprof; see pprof.c */
#ifndef TOOLS_PPROF_H
#define TOOLS_PPROF_H

#include "tools/inspect/sample_stacks.h"

/* Writes the profile, compressed, to standard output. */
void pprof_write(
    struct model *model, const struct sample_stack *stacks, size_t n);

#endif
