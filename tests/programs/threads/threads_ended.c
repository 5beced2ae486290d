/*
 * Memory that threads have freed is released to the kernel after they have
 * ended, although the program makes no further call.  The thread of the library
 * that does it ends within 3 s, or at once if the program makes a call that
 * only a process with one task may make.
 *
 * test timeout: 60
 */
#include <dirent.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 4,
	NBLOCKS = 40000,
	MOST_KIB = 8 << 10,
	WAIT_MS = 3000
};

static pthread_barrier_t all_full;

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
expect_one_task(void)
{
	wait_until(ntasks() == 1);
	check(ntasks() == 1);
}

/* Blocks of many sizes, and large ones. */
static void *
use_and_free(void *arg)
{
	void *block[8];
	uint64_t r = (uintptr_t)arg + 1;
	char **small = malloc(NBLOCKS * sizeof(*small));

	check(small != NULL);
	for (int i = 0; i < NBLOCKS; i++)
		check((small[i] = calloc(1, next_random(&r) % 1500)) != NULL);
	for (int i = 0; i < 8; i++) {
		check((block[i] = malloc(1 << 20)) != NULL);
		memset(block[i], 1, 1 << 20);
	}
	pthread_barrier_wait(&all_full);
	for (int i = 0; i < NBLOCKS; i++)
		free(small[i]);
	free(small);
	for (int i = 0; i < 8; i++)
		free(block[i]);
	return NULL;
}

static void
job(uintptr_t seed)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] =
		    thread_start(use_and_free, (void *)(seed + 100 * i));
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

/* Waits without a call of the allocator. */
static void
nap(unsigned ms)
{
	uint64_t end = now_ms() + ms;

	while (now_ms() < end)
		usleep(10000);
}

/* A process that ends its first thread meanwhile ends at once. */
static void
expect_end(void)
{
	uint64_t begin = now_ms();
	pid_t pid = fork();

	if (pid == 0) {
		job(1);
		pthread_exit(NULL);
	}
	child_end(pid);
	check(now_ms() < begin + WAIT_MS / 2);
}

int
main(void)
{
	long before;

	limit_time();
	check(pthread_barrier_init(&all_full, NULL, NTHREADS) == 0);
	churn(1, 1000, 10000);
	before = rss_kib();
	for (uintptr_t i = 0; i < 2; i++) {
		job(i);
		nap(WAIT_MS);
		check(rss_kib() < before + MOST_KIB);
		expect_one_task();
	}
	/* Jobs in a row, and the last one ends while the thread stays. */
	for (uintptr_t i = 0; i < 10; i++) {
		job(i);
		nap(50);
	}
	nap(WAIT_MS);
	check(rss_kib() < before + MOST_KIB);
	expect_one_task();
	/* Calls that need a process with one task, after a time that varies. */
	for (unsigned i = 0; i < 20; i++) {
		job(i);
		nap(i * 20);
		check(unshare(CLONE_THREAD) == 0);
		expect_one_task();
	}
	expect_end();
	job(5);
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	expect_one_task();
	return 0;
}
