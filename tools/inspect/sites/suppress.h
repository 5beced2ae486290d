/* suppress.h - suppression of known leaks; see suppress.c */
#ifndef TOOLS_SUPPRESS_H
#define TOOLS_SUPPRESS_H

#include "tools/inspect/model/model.h"

/* Adds the patterns of a file, or ends the command with this status. */
void suppress_read(const char *path, int failure);

/* Is any pattern read? */
bool suppress_is_on(void);

/* Does a pattern match a frame of the stack? */
bool suppress_matches(
    struct model *model, unsigned depth, const uint64_t *stack);

/* Returns the number of patterns, and sets *nused to those that matched. */
size_t suppress_count(size_t *nused);

#endif
