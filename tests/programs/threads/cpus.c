/*
 * Threads and the CPUs that they may run on.
 *
 * test run: affinity
 * test args: affinity
 * test run: one
 * test args: one
 * test modes: rseq locked own
 * test env: UMEM_OPTIONS=concurrency=1
 * test no stderr: .
 */
#include <malloc.h>
#include <sched.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 6
};
static pid_t tid[NTHREADS];
static volatile bool stop;

static void *
worker(void *arg)
{
	uint64_t n = (uintptr_t)arg;

	__atomic_store_n(&tid[n], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (uint64_t i = n * 1000; !stop; i++)
		churn(i, 1000, i % 10 ? 3000 : 300000);
	return NULL;
}

/* The CPUs that threads may run on change all the time, also to one. */
static void
affinity(void)
{
	pthread_t thread[NTHREADS];
	cpu_set_t all, one;
	int cpu[CPU_SETSIZE], ncpus = 0;
	uint64_t r = 1, end = now_ms() + 1500;

	check(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			cpu[ncpus++] = i;
	if (ncpus < 2)
		skip("only one CPU");

	/* Begin with one CPU, so that the library starts with one. */
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(worker, (void *)i);
	while (now_ms() < end) {
		unsigned t = next_random(&r) % NTHREADS;
		pid_t id = __atomic_load_n(&tid[t], __ATOMIC_ACQUIRE);

		if (id == 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu[next_random(&r) % (unsigned)ncpus], &one);
		check(sched_setaffinity(id, sizeof(one),
			  next_random(&r) % 8 ? &one : &all) == 0);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 30000, 10000);
	return NULL;
}

/* Many threads use the magazines of one CPU; the other CPUs have none. */
static void
one_has_magazines(void)
{
	struct umem_mode mode;
	pthread_t thread[16];

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.ncpus == 1);
	for (uintptr_t i = 0; i < 16; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 16; i++)
		thread_end(thread[i]);
	malloc_trim(0);
	churn(99, 30000, 10000);
}

static const struct test_case cases[] = {
    {"affinity", affinity}, {"one", one_has_magazines}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
