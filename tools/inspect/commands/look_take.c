/*
 * look_take.c - a look at a process or a core, taken in a child process
 *
 * The modules that inspect a target keep its state in static variables, so a
 * command that needs several looks takes each in a process of its own.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/commands/report.h"
#include "tools/inspect/report/look.h"

/* Writes a look at the target to a descriptor. */
static _Noreturn void
write_look(const char *target, bool of_leaks, int to)
{
	struct look look;
	sigset_t set;
	FILE *file;

	/* The caller may have blocked signals that shall end the search. */
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	look = report_look(target, of_leaks);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	file = fdopen(to, "w");
	if (file == NULL)
		fail_with(EXIT_ERROR, "%s: %s", target, strerror(errno));
	look_write(&look, file, target);
	exit(EXIT_OK);
}

bool
look_take(const char *target, bool of_leaks, struct look *look)
{
	int ends[2], status;
	bool is_read;
	FILE *file;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (child = fork()) < 0)
		fail_with(EXIT_ERROR, "%s: %s", target, strerror(errno));
	if (child == 0) {
		close(ends[0]);
		write_look(target, of_leaks, ends[1]);
	}
	close(ends[1]);
	file = fdopen(ends[0], "r");
	if (file == NULL)
		fail_with(EXIT_ERROR, "%s: %s", target, strerror(errno));
	/* The child writes nothing, or all; it prints the reason itself. */
	is_read = look_read(look, file, target);
	fclose(file);
	return waitpid(child, &status, 0) == child && status == 0 && is_read;
}
