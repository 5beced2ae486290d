/* memory.h - the memory that copies of a target may take; see memory.c */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "tools/inspect/base/text.h"

/*
 * Makes a process, or this one (0), the first that the kernel kills if memory
 * runs out.
 */
void memory_kill_first(int pid);

/*
 * The caller is about to make a copy of about bytes bytes of the target name.
 * Makes this process the first that the kernel kills if memory runs out, and
 * ends the command with a message if it needs more memory than is available,
 * unless forced.
 */
void memory_expect(const char *name, uint64_t bytes);

/*
 * Can the process pid, and the groups that it is in, still take so many bytes?
 * True if forced.  Otherwise stores the limit.
 */
bool memory_is_left_to(int pid, uint64_t bytes, const char **limit);

/*
 * Returns the least memory limit of the groups of the process pid, or the
 * memory of the machine if that is less, in bytes.
 */
uint64_t memory_limit_of(int pid);

/* After memory_expect(): is there as much memory, or was the copy forced? */
bool memory_suffices(uint64_t bytes);

/*
 * Accounts for bytes of a copy in progress.  Returns false if the total exceeds
 * the memory that memory_expect() found.  Any thread may call it.
 */
bool memory_spend(uint64_t bytes);

/* Ends the command with the message for a copy that memory_spend() stopped. */
_Noreturn void memory_fail(const char *name);

#endif
