/* program.h - the name of the target's program; see program.c */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include "tools/inspect/target/target.h"

/* Returns the name under which the program was started, if that is known. */
const char *program_name(struct target *target);

/* Returns the name of a mapping's file without its folder; see program.c. */
const char *program_object(struct target *target, const struct mapping *m);

#endif
