/*
 * test_soft_limit.c - the release above the soft limit (soft_limit.h); each
 * test is a separate process
 */
#include <check.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/hooks.h"
#include "tests/unit/second.h"
#include "tests/unit/stay.h"
#include "tests/unit/rounds.h"
#include "umem/cache/cache.h"
#include "umem/cache/worker.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/soft_limit.h"
#include "umem/upkeep/update.h"
#include "vmem/heap.h"
#include "vmem/os.h"

#define SIZE     4096
#define NOBJECTS (16 * MIB / SIZE)

static umem_cache_t *cache;

/* Leaves idle memory in a CPU's magazines, in a depot, and in slabs. */
static void
leave_idle(void)
{
	void **all = os_map(NOBJECTS * sizeof(*all));

	cache =
	    umem_cache_create("idle", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < NOBJECTS; i++)
			all[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		for (size_t i = 0; i < NOBJECTS; i++)
			umem_cache_free(cache, all[i]);
	}
}

static void
leave_dirty(size_t bytes)
{
	bool zeroed;
	void *at = heap_alloc(bytes, HEAP_UNIT, &zeroed);

	ck_assert_ptr_nonnull(at);
	heap_free(at, bytes);
	ck_assert_uint_ge(heap_dirty(), bytes);
}

static size_t
memory_now(void)
{
	return heap_held() - page_purge_bytes();
}

static size_t
rounds_of_cpus(void)
{
	return magazine_rounds(&cache->mag) - cache_depot_bytes(cache) / SIZE;
}

/*
 * Leaves free pages in slabs that all have an object in use, and rounds in the
 * magazines of a CPU, whose chunks are in such slabs.
 */
static void
leave_holes(void)
{
	unsigned nchunks;
	void **all = os_map(NOBJECTS * sizeof(*all));

	cache = umem_cache_create(
	    "holes", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
	nchunks = cache->slabs.layout.nchunks;
	ck_assert_uint_gt(nchunks, 2);
	for (size_t i = 0; i < NOBJECTS; i++) {
		all[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		memset(all[i], 1, SIZE);
	}
	for (size_t i = 0; i < NOBJECTS; i++)
		if (i % (nchunks - 1) != 0)
			umem_cache_free(cache, all[i]);
	ck_assert(worker_begin());
	reclaim_depots(SIZE_MAX);
	worker_end();
	heap_purge(0, SIZE_MAX);
	ck_assert_uint_eq(cache_depot_bytes(cache), 0);
	ck_assert_uint_eq(heap_dirty(), 0);
}

/* Sets the limit so many bytes below the memory of now, and releases. */
static bool
release(size_t bytes)
{
	bool suffices;

	ck_assert(worker_begin());
	heap_limits.soft = memory_now() - bytes;
	suffices = soft_limit_release(SIZE_MAX);
	worker_end();
	return suffices;
}

START_TEST(each_level_is_released_after_the_one_that_is_cheaper)
{
	size_t depot, cpus;

	stay_here();
	leave_idle();
	leave_dirty(8 * MIB);
	depot = cache_depot_bytes(cache);
	cpus = rounds_of_cpus();
	ck_assert_uint_gt(depot, 8 * MIB);
	ck_assert_uint_gt(cpus, 0);

	/* Dirty pages suffice. */
	ck_assert(release(1 * MIB));
	ck_assert_uint_eq(cache_depot_bytes(cache), depot);
	ck_assert_uint_gt(heap_dirty(), 1 * MIB);
	/* Dirty pages, and a depot. */
	ck_assert(release(heap_dirty() + 2 * MIB));
	ck_assert_uint_lt(cache_depot_bytes(cache), depot);
	ck_assert_uint_eq(rounds_of_cpus(), cpus);
	/* All the rest, of which the CPUs have the last. */
	ck_assert(!release(memory_now() - MIB / 4) || memory_now() <= MIB / 4);
	ck_assert_uint_eq(cache_depot_bytes(cache), 0);
	ck_assert_uint_eq(rounds_of_cpus(), 0);
	ck_assert_uint_lt(memory_now(), 2 * MIB);
	ck_assert_uint_eq(heap_limits.nsoft, 3);
}
END_TEST

START_TEST(pages_of_slabs_are_released_before_and_after_magazines)
{
	size_t holes, cpus;

	stay_here();
	leave_holes();
	cpus = rounds_of_cpus();
	ck_assert_uint_gt(cpus, 0);
	/* Pages of slabs suffice. */
	ck_assert(release(1 * MIB));
	ck_assert_uint_ge(page_purge_bytes(), 1 * MIB);
	ck_assert_uint_eq(rounds_of_cpus(), cpus);
	/* The chunks of the magazines are in slabs afterwards. */
	release(memory_now() - MIB / 4);
	ck_assert_uint_eq(rounds_of_cpus(), 0);
	holes = slab_total(&cache->slabs) - slab_used(&cache->slabs);
	ck_assert_uint_eq(page_purge_bytes(), holes * SIZE);
}
END_TEST

/* A release that brought nothing is tried again when there is more. */
START_TEST(a_heap_that_stays_above_the_limit_is_left_alone)
{
	bool zeroed;

	stay_here();
	ck_assert_ptr_nonnull(heap_alloc(32 * MIB, HEAP_UNIT, &zeroed));
	heap_limits.soft = 16 * MIB;
	ck_assert(worker_begin());
	ck_assert(soft_limit_is_due());
	ck_assert(!soft_limit_release(SIZE_MAX));
	ck_assert(soft_limit_is_exceeded());
	ck_assert(!soft_limit_is_due());
	ck_assert_uint_eq(reclaim_page_pressure(), RECLAIM_PRESSURE_MAX);
	ck_assert_ptr_nonnull(heap_alloc(2 * MIB, HEAP_UNIT, &zeroed));
	ck_assert(soft_limit_is_due());
	ck_assert(!soft_limit_release(SIZE_MAX));
	leave_dirty(2 * MIB);
	ck_assert(soft_limit_is_due());
	heap_limits.soft = 0;
	ck_assert(!soft_limit_is_due());
	ck_assert(!soft_limit_is_exceeded());
	worker_end();
}
END_TEST

static pid_t child;

/* As a program does in an madvise() of its own: the child returns from it. */
static void
fork_once(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	hook_os_purge = NULL;
	child = fork();
}

/* The turn of the worker ends in the child; every level is still to come. */
START_TEST(a_child_that_is_forked_in_a_purge_returns_from_the_release)
{
	bool zeroed;
	int status;

	second_start();
	ck_assert_ptr_nonnull(heap_alloc(32 * MIB, HEAP_UNIT, &zeroed));
	leave_dirty(2 * MIB);
	heap_limits.soft = 16 * MIB;
	ck_assert(worker_begin());
	hook_os_purge = fork_once;
	update_all();
	if (child == 0)
		_exit(hook_os_purge != NULL || worker_is_self());
	ck_assert(worker_is_self());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

Suite *
soft_limit_suite(void)
{
	Suite *s = suite_create("soft_limit");
	TCase *c = tcase_create("all");

	suite_add_tcase(s, c);
	tcase_add_test(c, each_level_is_released_after_the_one_that_is_cheaper);
	tcase_add_test(
	    c, pages_of_slabs_are_released_before_and_after_magazines);
	tcase_add_test(c, a_heap_that_stays_above_the_limit_is_left_alone);
	tcase_add_test(
	    c, a_child_that_is_forked_in_a_purge_returns_from_the_release);
	return s;
}
