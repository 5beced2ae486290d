/*
 * Requests that succeed after an attempt without memory leave errno unchanged:
 * from another CPU, from a reserve, and after a callback.
 *
 * test link: umem
 */
#include <sched.h>

#include "tests/programs/check.h"

static uintptr_t nimported, most = 4;

static size_t
import(void *arg, void **store, size_t n, int flags)
{
	size_t i;

	(void)arg, (void)flags;
	for (i = 0; i < n && nimported < most; i++)
		store[i] = (void *)++nimported;
	return i;
}

static void
release(void *arg, void *const *store, size_t n)
{
	(void)arg, (void)store, (void)n;
}

static void
run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		skip("one CPU");
}

static umem_cache_t *shared;

/* Leaves its resources idle on another CPU. */
static void *
use(void *arg)
{
	void *p[4];

	run_on(1);
	for (int i = 0; i < 4; i++)
		check((p[i] = umem_cache_alloc(shared, UMEM_DEFAULT)) != NULL);
	for (int i = 0; i < 4; i++)
		umem_cache_free(shared, p[i]);
	return arg;
}

static int
make_room(void)
{
	check(umem_ctl("hard_limit", "none", NULL, 0) == 0);
	return UMEM_CALLBACK_RETRY;
}

static void
limit(void)
{
	check(umem_ctl("hard_limit", "1m", NULL, 0) == 0);
	errno = 0;
}

/* A reserve of five objects, and none outside it. */
static void
check_reserve(umem_cache_t *cache)
{
	void *p[2];

	check(umem_cache_set_reserve(cache, 5) == 0);
	while (umem_cache_alloc(cache, UMEM_DEFAULT) != NULL)
		continue;
	errno = 0;
	check(umem_cache_alloc(cache, UMEM_RESERVE) != NULL && errno == 0);
	check(umem_cache_alloc_bulk(cache, 2, p, UMEM_RESERVE) == 2);
	check(errno == 0);
	check(umem_cache_set_reserve(cache, 4) == 0 && errno == 0);
}

int
main(void)
{
	static void *blocks[400];
	umem_cache_t *cache;

	shared =
	    umem_import_cache_create("shared", import, release, NULL, 0, 0);
	run_on(0);
	thread_end(thread_start(use, NULL));
	errno = 0;
	check(umem_cache_alloc_bulk(shared, 1, blocks, UMEM_DEFAULT) == 1);
	check(errno == 0);
	check(umem_cache_alloc(shared, UMEM_DEFAULT) != NULL && errno == 0);

	nimported = 0;
	most = 40;
	check_reserve(
	    umem_import_cache_create("reserve", import, release, NULL, 0, 0));
	check(umem_ctl("hard_limit", "8m", NULL, 0) == 0);
	cache = umem_cache_create(
	    "memory", 100000, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check_reserve(cache);

	umem_nofail_callback(make_room);
	limit();
	check(umem_cache_alloc(cache, UMEM_NOFAIL) != NULL && errno == 0);
	limit();
	check(umem_alloc(5 * MIB, UMEM_NOFAIL) != NULL && errno == 0);
	limit();
	check(umem_alloc_bulk(MIB, 4, blocks, UMEM_NOFAIL) == 4 && errno == 0);
	limit();
	check(umem_alloc_bulk(20000, 400, blocks, UMEM_NOFAIL) == 400);
	check(errno == 0);
	return 0;
}
