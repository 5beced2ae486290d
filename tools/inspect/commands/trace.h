/* trace.h - run a program and inspect it when it ends; see trace.c */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include "tools/inspect/base/text.h"

struct trace_options {
	bool leaks;
	bool stat;
	bool verify; /* with leaks */
};

/*
 * Runs the program, which exec_program() executes in the child, and prints the
 * requested reports on standard error when it ends.  Returns the exit status
 * for this command.
 */
int trace_run(const struct trace_options *options,
    void (*exec_program)(char **), char **arguments);

#endif
