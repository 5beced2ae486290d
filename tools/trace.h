/* trace.h - run a program and look at it when it ends; see trace.c */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include "tools/common.h"

struct trace_options {
	bool leaks;
	bool stat;
};

/*
 * Runs the program, which become() turns the child into, and prints what is
 * wanted on standard error when it ends.  Returns the exit status to end with.
 */
int trace_run(const struct trace_options *options, void (*become)(char **),
    char **arguments);

#endif
