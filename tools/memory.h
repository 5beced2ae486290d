/* memory.h - how much memory this command may use; see memory.c */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "tools/common.h"

/* --force: use more memory than there seems to be. */
extern bool memory_forced;

/*
 * Called before a copy of about bytes is made of the target name.  Makes this
 * process the first that the kernel kills if memory runs out, and ends the
 * command with a message if it needs more than there is, unless forced.
 */
void memory_expect(const char *name, uint64_t bytes);

/*
 * Accounts for bytes of a copy in progress.  False: more than there was when
 * memory_expect() looked.  Any thread may call it.
 */
bool memory_spend(uint64_t bytes);

/* The message for a copy that memory_spend() has stopped. */
_Noreturn void memory_fail(const char *name);

#endif
