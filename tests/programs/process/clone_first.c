/*
 * clone() with CLONE_VM is the first call of the library, and the child, which
 * shares the thread-local storage of its parent, allocates at the same time.
 *
 * test modes: default
 */
#include <sched.h>
#include <signal.h>

#include "tests/programs/check.h"

enum {
	NLOOPS = 100000,
	NBLOCKS = 8
};

static int
child(void *arg)
{
	void *volatile *block[NBLOCKS];

	for (int i = 0; i < NLOOPS; i++) {
		for (int n = 0; n < NBLOCKS; n++) {
			block[n] = malloc(64);
			check(block[n] != NULL);
			*block[n] = arg;
		}
		for (int n = 0; n < NBLOCKS; n++) {
			check(*block[n] == arg);
			free((void *)block[n]);
		}
	}
	return 0;
}

int
main(void)
{
	static char stack[1 << 18] __attribute__((aligned(64)));
	const char *debug = getenv("DEBUG");
	pid_t pid;

	if (debug != NULL && *debug != 0)
		skip("a debug build keeps a thread's locks in its storage");
	pid = clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD, stack);
	check(child(NULL) == 0);
	child_end(pid);
	return 0;
}
