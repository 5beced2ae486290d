/*
 * A raw clone() with CLONE_VM: the child shares memory and thread-local
 * storage with the thread that made it, which waits; the other threads go on
 * allocating, and so does the child.
 *
 * test modes: rseq locked own
 */
#include <sched.h>
#include <signal.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 4
};
static volatile bool stop;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop)
		churn(++seed, 500, 3000);
	return NULL;
}

static int
child(void *arg)
{
	churn((uintptr_t)arg, 5000, 3000);
	return 0;
}

int
main(void)
{
	static char stack[1 << 18] __attribute__((aligned(64)));
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	for (uintptr_t i = 0; i < 300; i++) {
		pid_t pid = clone(child, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)i);

		child_end(pid);
		churn(i, 500, 3000);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	return 0;
}
