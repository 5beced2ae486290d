/*
 * UMEM_OPTIONS=confined with libumem.so.1, which has no prctl() of its own.  A
 * program with threads, and with the thread of the library, is confined to the
 * system calls that the malloc() of libc needs.  With the argument "early", a
 * program confines itself at once: it has one CPU, on which the thread of the
 * library would begin later.
 *
 * test account: no
 * test link: umem
 * test modes: rseq own locked
 * test env: UMEM_OPTIONS=confined,thread=yes
 * test no stderr: .
 * test not with: address makes other system calls
 * test not with: thread makes other system calls
 *
 * test run: at_work
 * test run: early
 * test args: early
 */
#include <sched.h>

#include "tests/programs/seccomp.h"

enum {
	NOBJECTS = 2000,
	NTHREADS = 3,
	NROUNDS = 6
};
static int nstarted; /* [atomic] threads that run */
static int nrounds;  /* [atomic] since the filter */

static void
use_cache(void)
{
	void *object[NOBJECTS];
	umem_cache_t *cache = umem_cache_create(
	    "confined", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	check(cache != NULL);
	for (int i = 0; i < NOBJECTS; i++)
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < NOBJECTS; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_reap_now(cache);
	umem_reap();
	umem_cache_destroy(cache);
}

static void *
load(void *arg)
{
	__atomic_add_fetch(&nstarted, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&nrounds, __ATOMIC_ACQUIRE) < NROUNDS) {
		void *p = umem_alloc(20 * MIB, UMEM_DEFAULT);

		check(p != NULL);
		memset(p, 1, MIB);
		umem_free(p, 20 * MIB);
		use_cache();
	}
	return arg;
}

static int
run_early(char **argv)
{
	cpu_set_t one;

	if (strcmp(argv[1], "early") == 0) {
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		check(sched_setaffinity(0, sizeof(one), &one) == 0);
		start_again(argv, "again");
	}
	allow_only_malloc();
	usleep(100000);
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
	return 0;
}

int
main(int argc, char **argv)
{
	pthread_t thread[NTHREADS];

	if (argc > 1)
		return run_early(argv);
	for (int i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, NULL);
	use_cache();
	/* A thread that begins asks for more. */
	while (__atomic_load_n(&nstarted, __ATOMIC_ACQUIRE) < NTHREADS)
		usleep(1000);
	allow_only_malloc();
	for (int i = 0; i < NROUNDS; i++) {
		use_cache();
		usleep(60000);
		__atomic_add_fetch(&nrounds, 1, __ATOMIC_RELEASE);
	}
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	return 0;
}
