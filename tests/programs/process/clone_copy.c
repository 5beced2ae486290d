/*
 * A raw clone() without CLONE_VM is a fork that runs no fork handler.  The
 * child gets a copy of the library's state as the only thread of the parent
 * left it at that moment, and can allocate.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

static void *
once(void *arg)
{
	churn((uintptr_t)arg, 500, 100000);
	return NULL;
}

static int
child(void *arg)
{
	limit_time();
	churn((uintptr_t)arg, 2000, 300000);
	return 0;
}

int
main(void)
{
	static char stack[1 << 18] __attribute__((aligned(64)));

	/* Threads that are gone have used the library too. */
	for (uintptr_t i = 0; i < 4; i++)
		thread_end(thread_start(once, (void *)i));
	for (uintptr_t i = 0; i < 200; i++) {
		char *p = malloc(1000 * i);
		pid_t pid;

		check(p != NULL);
		if (i % 2) {
			pid = clone(
			    child, stack + sizeof(stack), SIGCHLD, (void *)i);
		} else {
			pid = (pid_t)syscall(
			    SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
			if (pid == 0) {
				free(p);
				_exit(child((void *)i));
			}
		}
		churn(i, 500, 100000);
		child_end(pid);
		free(p);
	}
	return 0;
}
