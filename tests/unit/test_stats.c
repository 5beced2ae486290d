/* test_stats.c - do the figures of the statistics add up? */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "umem/base/large.h"
#include "umem/stats/stats.h"
#include "umem/umem.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"

static unsigned nseen, nwrong;

static struct stats_cache of_test;

static void
look(const struct stats_cache *cache, void *arg)
{
	struct umem_stats *sum = arg;

	nseen++;
	if (cache->nlive + cache->ncpu + cache->ndepot > cache->nchunks ||
	    cache->nslabs > cache->nchunks)
		nwrong++;
	if (sum != NULL) {
		sum->slab_bytes += cache->nslabs * cache->memory;
		sum->live_bytes += cache->nlive * cache->chunk;
	}
	if (strcmp(cache->name, "figures") == 0)
		of_test = *cache;
}

/* Bytes of the chunks that the program holds. */
static size_t
chunks(const struct umem_stats *stats)
{
	return stats->live_bytes - stats->large_bytes - stats->arena_bytes;
}

START_TEST(the_sum_is_the_sum_of_the_caches)
{
	struct umem_stats stats, sum = {0};

	for (size_t size = 1; size <= 130000; size *= 2)
		umem_alloc(size, UMEM_DEFAULT);
	stats_each_cache(look, &sum);
	stats_read(&stats);
	ck_assert_uint_ge(nseen, 14);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(chunks(&stats), sum.live_bytes);
	ck_assert_uint_eq(
	    chunks(&stats) + stats.cached_bytes + stats.waiting_bytes,
	    sum.slab_bytes);
	ck_assert_int_eq(stats_unaccounted(&stats), 0);
	ck_assert_uint_eq(stats.committed_bytes, heap_committed());
	ck_assert_uint_eq(stats.dirty_bytes, heap_dirty());
	ck_assert_uint_eq(stats.large_bytes, account_get(&account.large));
	ck_assert_uint_eq(stats.nlarge, large_count());
	ck_assert_uint_ge(stats.own_bytes, meta_mapped());
	ck_assert_uint_ge(stats.committed_bytes, stats.heap_bytes);
	ck_assert_uint_eq(
	    stats.mapped_bytes, stats.heap_bytes + stats.own_bytes);
}
END_TEST

START_TEST(live_is_what_the_program_has)
{
	static void *p[3000];
	struct umem_stats before, after;

	stats_read(&before);
	for (unsigned i = 0; i < 3000; i++)
		p[i] = umem_alloc(100, UMEM_DEFAULT);
	stats_read(&after);
	ck_assert_uint_eq(chunks(&after) - chunks(&before), 3000 * 112);
	for (unsigned i = 0; i < 2999; i++)
		umem_free(p[i], 100);
	stats_read(&after);
	ck_assert_uint_eq(chunks(&after) - chunks(&before), 112);
	p[0] = umem_alloc(30 * MIB, UMEM_DEFAULT);
	stats_read(&after);
	ck_assert_uint_eq(after.large_bytes - before.large_bytes, 30 * MIB);
	ck_assert_uint_eq(after.nlarge - before.nlarge, 1);
	umem_free(p[0], 30 * MIB);
	umem_free(p[2999], 100);
	stats_read(&after);
	ck_assert_uint_eq(chunks(&after), chunks(&before));
	ck_assert_uint_eq(after.large_bytes, before.large_bytes);
	ck_assert_uint_eq(after.nlarge, before.nlarge);
}
END_TEST

START_TEST(a_cache_is_told_of_by_name)
{
	umem_cache_t *cache = umem_cache_create(
	    "figures", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *p[10];

	for (int i = 0; i < 10; i++)
		p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < 4; i++)
		umem_cache_free(cache, p[i]);
	stats_each_cache(look, NULL);
	ck_assert_str_eq(of_test.name, "figures");
	ck_assert_uint_eq(of_test.chunk, 112);
	ck_assert_uint_eq(of_test.nlive, 6);
	ck_assert_uint_eq(of_test.nslabs, 1);
	if (cache->has_magazines)
		ck_assert_uint_ge(of_test.ncpu, 4);
	ck_assert_uint_eq(of_test.nfailed, 0);
	for (int i = 4; i < 10; i++)
		umem_cache_free(cache, p[i]);
	of_test = (struct stats_cache){0};
	umem_cache_destroy(cache);
	stats_each_cache(look, NULL);
	ck_assert_ptr_null(of_test.name);
}
END_TEST

START_TEST(failures_are_counted)
{
	umem_cache_t *cache = umem_cache_create(
	    "figures", (size_t)1 << 50, 0, NULL, NULL, NULL, NULL, NULL, 0);

	for (int i = 0; i < 3; i++)
		ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
	stats_each_cache(look, NULL);
	ck_assert_uint_ge(of_test.nfailed, 3);
	ck_assert_uint_eq(of_test.nchunks, 0);
	ck_assert_uint_eq(of_test.nlive, 0);
}
END_TEST

START_TEST(objects_of_a_destroyed_cache_stay_counted)
{
	struct umem_stats before, after;
	umem_cache_t *cache;

	stats_read(&before);
	cache = umem_cache_create(
	    "figures", 3000, 0, NULL, NULL, NULL, NULL, NULL, 0);
	for (unsigned i = 0; i < 100; i++)
		umem_cache_alloc(cache, UMEM_DEFAULT);
	umem_cache_destroy(cache);
	stats_read(&after);
	ck_assert_uint_ge(after.live_bytes, before.live_bytes + 100 * 3000);
	ck_assert_int_eq(stats_unaccounted(&after), 0);
}
END_TEST

static uint32_t stop;

/*
 * Allocate and free whole slabs, so that the figures of two moments differ
 * much.
 */
static void *
churn(void *arg)
{
	umem_cache_t *cache = arg;
	static __thread void *p[1000];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 1000; i++)
			p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		for (int i = 0; i < 1000; i++)
			umem_cache_free(cache, p[i]);
		umem_cache_reap_now(cache);
	}
	return NULL;
}

START_TEST(figures_are_possible_ones_also_while_they_change)
{
	umem_cache_t *cache = umem_cache_create(
	    "figures", 4000, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	uint64_t end = os_now_ns() + 300000000;
	unsigned nread = 0, nfar = 0;
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, churn, cache);
	while (os_now_ns() < end) {
		struct umem_stats stats;

		stats_each_cache(look, NULL);
		stats_read(&stats);
		if (stats.live_bytes > stats.committed_bytes ||
		    stats.cached_bytes > stats.committed_bytes)
			nwrong++;
		nread++;
		if ((size_t)labs(stats_unaccounted(&stats)) >
		    stats.heap_bytes / 100 + HEAP_UNIT)
			nfar++;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	/*
	 * A thread that loses its CPU while slabs are on their way keeps the
	 * sum wrong for that time.
	 */
	ck_assert_msg(nfar <= nread / 2, "%u of %u", nfar, nread);
	stats_each_cache(look, NULL);
	ck_assert_uint_eq(of_test.nlive, 0);
}
END_TEST

Suite *
stats_suite(void)
{
	Suite *suite = suite_create("stats");
	TCase *tc = tcase_create("stats");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_sum_is_the_sum_of_the_caches);
	tcase_add_test(tc, live_is_what_the_program_has);
	tcase_add_test(tc, a_cache_is_told_of_by_name);
	tcase_add_test(tc, failures_are_counted);
	tcase_add_test(tc, objects_of_a_destroyed_cache_stay_counted);
	tcase_add_test(tc, figures_are_possible_ones_also_while_they_change);
	suite_add_tcase(suite, tc);
	return suite;
}
