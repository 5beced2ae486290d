/*
 * A raw clone(), which runs no fork handler.
 *
 * test not with: qemu makes threads and copies by clone(), nothing else
 * test run: copy
 * test args: copy
 * test run: shared
 * test args: shared
 * test modes: rseq locked own
 * test run: first
 * test args: first
 * test modes: default
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 4,
	NLOOPS = 100000,
	NBLOCKS = 8
};
static char stack[1 << 18] __attribute__((aligned(64)));
static volatile bool stop;

static void *
once(void *arg)
{
	churn((uintptr_t)arg, 500, 100000);
	return NULL;
}

static int
copied_child(void *arg)
{
	limit_time();
	churn((uintptr_t)arg, 2000, 300000);
	return 0;
}

/*
 * Without CLONE_VM, the child gets a copy of the library's state as the only
 * thread of the parent left it at that moment, and can allocate.
 */
static void
copy(void)
{
	/* Threads that are gone have used the library too. */
	for (uintptr_t i = 0; i < 4; i++)
		thread_end(thread_start(once, (void *)i));
	for (uintptr_t i = 0; i < 200; i++) {
		char *p = malloc(1000 * i);
		pid_t pid;

		check(p != NULL);
		if (i % 2) {
			pid = clone(copied_child, stack + sizeof(stack),
			    SIGCHLD, (void *)i);
		} else {
			pid = (pid_t)syscall(
			    SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
			if (pid == 0) {
				free(p);
				_exit(copied_child((void *)i));
			}
		}
		churn(i, 500, 100000);
		child_end(pid);
		free(p);
	}
}

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop)
		churn(++seed, 500, 3000);
	return NULL;
}

static int
sharing_child(void *arg)
{
	churn((uintptr_t)arg, 5000, 3000);
	return 0;
}

/*
 * With CLONE_VM, the child shares memory and thread-local storage with the
 * thread that made it, which waits; the other threads go on allocating, and so
 * does the child.
 */
static void
shared(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	for (uintptr_t i = 0; i < 300; i++) {
		pid_t pid = clone(sharing_child, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)i);

		child_end(pid);
		churn(i, 500, 3000);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

static int
first_child(void *arg)
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

/* The same as the first call of the library; the child allocates meanwhile. */
static void
first(void)
{
	const char *debug = getenv("DEBUG");
	pid_t pid;

	if (debug != NULL && *debug != 0)
		skip("a debug build keeps a thread's locks in its storage");
	pid = clone(
	    first_child, stack + sizeof(stack), CLONE_VM | SIGCHLD, stack);
	check(first_child(NULL) == 0);
	child_end(pid);
}

static const struct test_case cases[] = {
    {"copy", copy}, {"shared", shared}, {"first", first}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
