/*
 * A program that has joined its threads has one task, as before.  System calls
 * that the kernel allows only to a process with one task succeed, and no thread
 * of the library is left outside of a sandbox.
 */
#include <dirent.h>
#include <sched.h>

#include "tests/programs/check.h"

static int created; /* [atomic] */

static int
ntasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	if (dir == NULL)
		skip("no /proc here");
	while ((entry = readdir(dir)) != NULL)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* The kernel may take a moment to release a task that was joined. */
static void
wait_for_tasks(int n)
{
	wait_until(ntasks() == n);
	check(ntasks() == n);
}

static void *
run(void *arg)
{
	while (__atomic_load_n(&created, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	churn((uintptr_t)arg, 1000, 100000);
	/* With the library's. */
	if (arg != NULL)
		wait_for_tasks(3);
	return NULL;
}

static void
one_round(void *arg)
{
	pthread_t thread;

	__atomic_store_n(&created, 0, __ATOMIC_RELEASE);
	thread = thread_start(run, arg);
	__atomic_store_n(&created, 1, __ATOMIC_RELEASE);
	thread_end(thread);
	wait_for_tasks(1);
	check(unshare(CLONE_THREAD) == 0);
}

int
main(void)
{
	pthread_t other[2];

	for (uintptr_t i = 1; i <= 5; i++)
		one_round((void *)i);
	/* Two threads end at about the same time. */
	for (int i = 0; i < 50; i++) {
		for (int k = 0; k < 2; k++)
			other[k] = thread_start(run, NULL);
		for (int k = 0; k < 2; k++)
			thread_end(other[k]);
		wait_for_tasks(1);
		check(unshare(CLONE_THREAD) == 0);
	}
	return 0;
}
