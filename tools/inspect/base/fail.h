/* fail.h - messages of the command, and its end; see fail.c */
#ifndef TOOLS_FAIL_H
#define TOOLS_FAIL_H

#include <setjmp.h>
#include <stdbool.h>

/* Exit statuses of a command that inspects a process. */
enum {
	EXIT_OK = 0,
	EXIT_FOUND = 1, /* leaks, corrupt buffers, an address that is known */
	EXIT_ERROR = 2  /* could not inspect the target */
};

/* Writes "umem: " and the message as one line, and ends the process. */
_Noreturn void fail_with(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* If not NULL, fail_with() jumps here with its status instead. */
extern jmp_buf *fail_target;
/*
 * While this is set, messages are not written; the text of the last one, of
 * fail_with() or print_warning(), is in fail_kept.
 */
extern bool fail_is_kept;
extern const char *fail_kept;
void print_warning(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
