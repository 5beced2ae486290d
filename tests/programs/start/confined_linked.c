/*
 * UMEM_OPTIONS=confined with libumem.so.1, which has no prctl() of its own.  A
 * program with threads, and with the thread of the library, is confined to the
 * system calls that the malloc() of libc needs.
 *
 * test account: no
 * test link: umem
 * test modes: rseq own locked
 * test env: UMEM_OPTIONS=confined,thread=yes
 * test no stderr: .
 */
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

int
main(void)
{
	pthread_t thread[NTHREADS];

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
