/*
 * fork_in_handler.c - a signal handler forks at any instruction of the only
 * thread
 *
 * The child continues from there, too: every second child returns from the
 * handler, works on, and ends later.
 *
 * test not with: musl its fork() may not interrupt itself
 * test modes: rseq own locked
 * test timeout: 200
 * test no stderr: .
 * test not with: qemu takes minutes for the signals
 * test not with: coverage writes the counters of each child
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"

#define NBLOCKS 2000
#define NFORKS  400

static volatile sig_atomic_t nforks, nbad;
static pid_t parent;

static void
fork_now(int number)
{
	int saved = errno;
	pid_t child;
	int status;

	(void)number;
	if (getpid() != parent)
		return;
	child = fork();
	if (child == 0) {
		struct itimerval none = {{0, 0}, {0, 0}};

		setitimer(ITIMER_REAL, &none, NULL);
		limit_time();
		if (nforks % 2 == 0)
			_exit(0);
		errno = saved;
		return;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	nbad += child < 0 || status != 0;
	nforks++;
	errno = saved;
}

/* Blocks of many sizes, some large, keep their content. */
static void
go_round(void)
{
	static unsigned char *block[NBLOCKS];
	static size_t size[NBLOCKS];
	static unsigned seed = 1;

	for (unsigned i = 0; i < NBLOCKS; i++) {
		seed = seed * 1103515245 + 12345;
		if (block[i] != NULL && (block[i][0] != (i & 255) ||
					    block[i][size[i] - 1] != (i & 255)))
			_exit(3);
		free(block[i]);
		size[i] = 1 + (seed >> 16 & 2047);
		if (seed >> 24 == 0)
			size[i] *= 1000;
		block[i] = malloc(size[i]);
		if (block[i] == NULL)
			_exit(4);
		block[i][0] = block[i][size[i] - 1] = i & 255;
	}
}

int
main(void)
{
	struct sigaction action = {
	    .sa_handler = fork_now, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 700}, {0, 700}};

	parent = getpid();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (getpid() == parent && nforks < NFORKS)
		go_round();
	/* In a child, too, which may free and allocate any block. */
	for (int i = 0; getpid() != parent && i < 3; i++)
		go_round();
	return getpid() == parent && nbad != 0;
}
