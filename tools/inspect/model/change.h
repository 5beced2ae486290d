/* change.h - changes of a running process; see change.c */
#ifndef TOOLS_CHANGE_H
#define TOOLS_CHANGE_H

#include "tools/inspect/model/layout.h"

/*
 * Opens a process whose library is ready, and stops its threads.  Ends the
 * command if that is not possible.
 */
struct target *change_open(const char *name, struct layout **layout);

/* Writes an aligned number of 1, 2, 4 or 8 bytes. */
void change_number(
    struct target *target, uint64_t at, uint64_t bytes, uint64_t value);

/* Sets the sampling interval in bytes, 0 for none. */
void change_sampling(
    struct target *target, const struct layout *layout, uint64_t mean);

#endif
