/*
 * fork() in a program of which all threads are in malloc.
 *
 * test run: load
 * test args: load
 * test run: storm
 * test args: storm
 */
#include "tests/programs/check.h"

enum {
	NTHREADS = 6,
	NFORKS = 75,
	NBLOCKS = 200
};

static volatile bool stop;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (; !stop; seed++)
		churn(seed, 500, seed % 8 ? 5000 : 2000000);
	return NULL;
}

static void *
child_thread(void *arg)
{
	churn((uintptr_t)arg, 3000, 100000);
	return NULL;
}

static void
child(char **block, uint64_t seed)
{
	pthread_t thread[3];

	for (int i = 0; i < NBLOCKS; i++) {
		check(is_stamped(block[i], 16u << i % 12, (uint64_t)i));
		free(block[i]);
	}
	churn(seed, 3000, 100000);
	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(child_thread, (void *)(seed + i));
	if (seed % 8 == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			churn(seed, 3000, 100000);
			_exit(0);
		}
		child_end(pid);
	}
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

/*
 * The child can allocate, free the inherited blocks, start threads, and fork
 * again.
 */
static void
one_forks(void)
{
	pthread_t thread[NTHREADS];
	static char *block[NBLOCKS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)(i * 1000));
	for (uint64_t n = 0; n < NFORKS; n++) {
		pid_t pid;

		for (int i = 0; i < NBLOCKS; i++) {
			check((block[i] = malloc(16u << i % 12)) != NULL);
			stamp(block[i], 16u << i % 12, (uint64_t)i);
		}
		if ((pid = fork()) == 0) {
			limit_time();
			stop = true;
			child(block, n);
			/* Every other ends the long way. */
			if (n % 2)
				exit(0);
			_exit(0);
		}
		for (int i = 0; i < NBLOCKS; i++)
			free(block[i]);
		child_end(pid);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

static void *
storm(void *arg)
{
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t seed = (uintptr_t)arg * 1000 + i;
		char *p = malloc(100 + i);
		pid_t pid = fork();

		check(p != NULL);
		if (pid == 0) {
			limit_time();
			churn(seed, 300, 50000);
			free(p);
			_exit(0);
		}
		churn(seed, 300, 50000);
		free(p);
		child_end(pid);
	}
	return NULL;
}

/* A chain: each child is the parent of the next. */
static void
generation(int n)
{
	pid_t pid;

	churn((uint64_t)n, 500, 50000);
	if (n == 0)
		return;
	if ((pid = fork()) == 0) {
		limit_time();
		generation(n - 1);
		exit(0);
	}
	churn((uint64_t)n, 500, 50000);
	child_end(pid);
}

/* Many forks at once from several threads, and generations of children. */
static void
all_fork(void)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(storm, (void *)i);
	generation(60);
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);
}

static const struct test_case cases[] = {
    {"load", one_forks}, {"storm", all_fork}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
