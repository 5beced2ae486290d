/*
 * limit_fork.c - threads that wait at a limit while another forks
 *
 * Each child finds the count of its parent and an empty queue, and its requests
 * are served.
 *
 * test modes: rseq locked own
 * test link: umem
 */
#include <pthread.h>

#include "tests/programs/check.h"

#define LIMIT    8
#define NTHREADS 4
#define NFORKS   40

static umem_cache_t *cache;
static int stop; /* [atomic] */

static struct umem_cache_limits
limits(void)
{
	struct umem_cache_limits out;

	check(umem_cache_limits(cache, &out, sizeof(out)) == 0);
	return out;
}

static void *
work(void *arg)
{
	uint64_t r = (uintptr_t)arg;
	void *mine[LIMIT];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t n = 1 + next_random(&r) % LIMIT;

		check(umem_cache_alloc_bulk(cache, n, mine, 0) == n);
		check(limits().in_use <= LIMIT);
		for (size_t i = 0; i < n; i++)
			stamp(mine[i], 200, r);
		umem_cache_free_bulk(cache, n, mine);
	}
	return NULL;
}

/* In the child, objects held by the parent's other threads count for ever. */
static void
in_the_child(void)
{
	struct umem_cache_limits now = limits();
	void *object;

	limit_time();
	check(now.in_use <= LIMIT && now.waiting == 0);
	check(umem_cache_set_limit(cache, LIMIT + 2) == 0);
	for (int i = 0; i < 100; i++) {
		object = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object != NULL);
		check(limits().in_use == now.in_use + 1);
		umem_cache_free(cache, object);
	}
	check(limits().in_use == now.in_use && limits().waits == now.waits);
}

int
main(void)
{
	struct umem_cache_args args = {
	    .size = 200, .limit = LIMIT, .limit_wait = -1, .reserve = 4};
	pthread_t thread[NTHREADS];

	limit_time();
	cache = umem_cache_create_args("shared", &args, sizeof(args));
	check(cache != NULL);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(work, (void *)(i + 1));
	wait_until(limits().waits > 10);
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			in_the_child();
			_exit(0);
		}
		child_end(pid);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(limits().in_use == 0 && limits().waiting == 0);
	umem_cache_destroy(cache);
	return 0;
}
