/* progress.h - a line on the terminal for a long task; see progress.c */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdint.h>

/*
 * Shows that done of all parts of a task are done, if standard error is a
 * terminal and the command has worked for a second.  Only one thread may call
 * it.
 */
void progress_show(const char *task, uint64_t done, uint64_t all);

/* Erases the line, before anything else is printed. */
void progress_end(void);

#endif
