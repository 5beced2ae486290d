/*
 * child.h - runs a function in a child process and records its output
 *
 * For functions that end the process or write messages.
 */
#ifndef TESTS_UNIT_CHILD_H
#define TESTS_UNIT_CHILD_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"

static char child_text[16384];
static int child_status;

/* Runs f in a child; returns its output on stderr and sets child_status. */
static inline const char *
child_writes(void (*f)(void))
{
	int fd[2];
	size_t n = 0;
	ssize_t got;
	pid_t child;

	ck_assert_int_eq(pipe(fd), 0);
	child = fork();
	ck_assert_int_ne(child, -1);
	if (child == 0) {
		dup2(fd[1], 2);
		close(fd[0]);
		close(fd[1]);
		limit_time();
		f();
		_exit(0);
	}
	close(fd[1]);
	while (
	    (got = read(fd[0], child_text + n, sizeof(child_text) - 1 - n)) > 0)
		n += (size_t)got;
	child_text[n] = '\0';
	close(fd[0]);
	waitpid(child, &child_status, 0);
	return child_text;
}

/* The first line of what f writes in a child, without the rest of a report. */
static inline const char *
child_writes_first(void (*f)(void))
{
	char *end;

	child_writes(f);
	end = strchr(child_text, '\n');
	if (end != NULL)
		end[1] = '\0';
	return child_text;
}

static inline bool
child_aborted(void)
{
	return WIFSIGNALED(child_status) && WTERMSIG(child_status) == SIGABRT;
}

static inline bool
child_exited(int status)
{
	return WIFEXITED(child_status) && WEXITSTATUS(child_status) == status;
}

#endif
