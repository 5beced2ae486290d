/* not_ours.h - the memory that is not the library's; see not_ours.c */
#ifndef TOOLS_NOT_OURS_H
#define TOOLS_NOT_OURS_H

#include "tools/inspect/model/usage.h"

/*
 * Returns the kinds and the largest parts of the memory of a process that is
 * not the library's, and writes them as a member of a JSON object.  The stacks
 * of threads are known if the target was stopped.
 */
const char *not_ours_text(struct target *target, const struct usage *usage);

#endif
