/*
 * Under a limit of threads the program gets all of them: the thread of the
 * library makes room for one of the program.  It comes back when there is room
 * again.
 */
#include <dirent.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

enum {
	LIMIT = 6,
	NROUNDS = 20,
	FIRST_USER = 100000
};

static int may_end; /* [atomic] */

static void *
run(void *arg)
{
	churn((uintptr_t)arg, 1000, 10000);
	while (__atomic_load_n(&may_end, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	return NULL;
}

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

/* One more thread than there is room for is refused, and nothing is lost. */
static void
round_of_threads(uintptr_t seed)
{
	pthread_t thread[LIMIT];
	int n = 0, error = 0;

	__atomic_store_n(&may_end, 0, __ATOMIC_RELEASE);
	while (n < LIMIT && error == 0) {
		error = pthread_create(
		    &thread[n], NULL, run, (void *)(seed + (unsigned)n));
		n += error == 0;
	}
	check(error == EAGAIN && n == LIMIT - 1);
	check(ntasks() == LIMIT);
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	while (n > 0)
		thread_end(thread[--n]);
	wait_until(ntasks() == 1);
}

int
main(void)
{
	struct rlimit limit = {LIMIT, LIMIT};
	pthread_t thread;

	if (geteuid() != 0)
		skip("only root can become a user without processes");
	/* A user without another process: the kernel does not limit root. */
	check(setuid(FIRST_USER + (uid_t)getpid()) == 0);
	check(setrlimit(RLIMIT_NPROC, &limit) == 0);
	for (uintptr_t i = 0; i < NROUNDS; i++)
		round_of_threads(i * LIMIT);
	__atomic_store_n(&may_end, 0, __ATOMIC_RELEASE);
	/* The library starts a few at once, then one in an interval. */
	usleep(600000);
	thread = thread_start(run, (void *)1);
	check(ntasks() == 3);
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	thread_end(thread);
	return 0;
}
