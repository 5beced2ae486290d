/*
 * restless.c - a program that forks or replaces itself all the time
 *
 *	restless MIB fork | exec
 *
 * Touches a block of MIB and prints "ready".  "fork": then forks a child and
 * waits for it, again and again, while a second thread allocates; "exec":
 * starts itself again after a moment.  Ends when its standard input ends.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/check.h"

static void *
allocate(void *arg)
{
	for (;;)
		free(malloc(3000));
	return arg;
}

int
main(int argc, char **argv)
{
	size_t bytes = (size_t)atoi(argv[1]) << 20;
	struct pollfd input = {.events = POLLIN};
	static void *volatile kept;
	pthread_t thread;

	check(argc == 3 && (kept = malloc(bytes)) != NULL);
	memset(kept, 1, bytes);
	check(pthread_create(&thread, NULL, allocate, NULL) == 0);
	check(write(1, "ready\n", 6) == 6);
	if (strcmp(argv[2], "exec") == 0) {
		if (poll(&input, 1, 100) == 0)
			execv("/proc/self/exe", argv);
		return 0;
	}
	while (poll(&input, 1, 0) == 0) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		check(child > 0 && waitpid(child, NULL, 0) == child);
	}
	return 0;
}
