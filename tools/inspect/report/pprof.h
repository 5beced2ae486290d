/* pprof.h - blocks by their stacks as a profile for pprof; see pprof.c */
#ifndef TOOLS_PPROF_H
#define TOOLS_PPROF_H

#include "tools/inspect/sites/sites.h"

/* Writes the profile, compressed, to standard output. */
void pprof_write(const struct sites *sites);

#endif
