/*
 * launch.c - runs a program and reports its processor time and peak memory
 *
 * Usage: launch FD [NAME=VALUE ...] PROGRAM [ARGUMENT ...]
 *
 * Sets the variables for the program alone, and writes "CPU RSS STATUS" to
 * file descriptor FD: user and system time in seconds, most resident memory
 * in MiB, and the status of wait(2).
 *
 * This is a program of its own because a process starts with the peak memory
 * of the process that forked it.  The peak of a Python process is higher than
 * the peak of most benchmarks.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static double
seconds(struct timeval tv)
{
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static void
run(int fd, char **argv)
{
	close(fd);
	while (*argv != NULL && strchr(*argv, '=') != NULL)
		putenv(*argv++);
	if (*argv != NULL)
		execvp(*argv, argv);
	perror(*argv == NULL ? "launch" : *argv);
	_exit(127);
}

int
main(int argc, char **argv)
{
	int fd = argc > 2 ? atoi(argv[1]) : -1;
	struct rusage used;
	int status;
	pid_t child;

	if (fd < 0) {
		fprintf(
		    stderr, "usage: launch FD [NAME=VALUE ...] PROGRAM ...\n");
		return 2;
	}
	child = fork();
	if (child == 0)
		run(fd, argv + 2);
	if (child < 0 || wait4(child, &status, 0, &used) != child) {
		perror("launch");
		return 1;
	}
	dprintf(fd, "%.6f %.3f %d\n",
	    seconds(used.ru_utime) + seconds(used.ru_stime),
	    (double)used.ru_maxrss / 1024, status);
	return 0;
}
