/* snapshot.h - copy the target and make its model; see snapshot.c */
#ifndef TOOLS_SNAPSHOT_H
#define TOOLS_SNAPSHOT_H

#include "tools/inspect/model/model.h"

/*
 * Stops the target, copies its memory, resumes it, and analyses the copies.  It
 * always copies the library's own structures, and the given parts.  With
 * MODEL_POINTERS the caller calls target_end_copy() after the search.
 */
struct model *snapshot_take(
    struct target *target, const struct layout *layout, unsigned parts);

/* Opens the target with this name and returns its model. */
struct model *snapshot_open(const char *name, unsigned parts);

#endif
