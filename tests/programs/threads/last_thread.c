/*
 * A process ends, by exit(0), when the last thread of the program ends: a
 * thread of the library must not keep it alive.  The test checks this in the
 * process itself, and in a child forked by a thread other than the first.
 *
 * test timeout: 30
 * test stderr: ^exit handler$
 */
#include "tests/programs/check.h"

static void
said(void)
{
	check(write(2, "exit handler\n", 13) == 13);
}

/* Much freed memory, for seconds: worth a thread of the library's. */
static void *
use(void *arg)
{
	uint64_t end = now_ms() + 2500;

	for (uint64_t seed = (uintptr_t)arg; now_ms() < end; seed++) {
		char *p = malloc(12 * MIB);

		check(p != NULL);
		memset(p, 1, 12 * MIB);
		free(p);
		churn(seed, 1000, 300000);
	}
	return NULL;
}

static void *
fork_and_use(void *arg)
{
	pid_t pid = fork();

	if (pid != 0) {
		child_end(pid);
		return arg;
	}
	thread_end(thread_start(use, (void *)7));
	/* The child's only thread ends by returning. */
	return arg;
}

int
main(void)
{
	limit_time();
	check(atexit(said) == 0);
	thread_start(use, (void *)1);
	thread_start(fork_and_use, (void *)2);
	pthread_exit(NULL);
}
