/*
 * test_reclaim.c - memory cached in magazines and depots, and its reclaim
 * (reclaim.h) when the heap grows or is asked for memory; each test is a
 * separate process
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/live.h"
#include "tests/unit/hooks.h"
#include "tests/unit/stay.h"
#include "umem/cache/cache.h"
#include "umem/upkeep/reclaim.h"
#include "umem/base/size_class.h"
#include "umem/upkeep/update.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "magazine/target.h"

#define NPHASES 8
#define PHASE   (1 * MIB)
#define LATER   (16 * MIB)

/* Keep the array of pointers in memory that does not belong to the heap. */
static void **
take_bytes(umem_cache_t *cache, size_t size, size_t bytes)
{
	void **all = os_map(align_up(bytes / size * sizeof(*all), 4096));

	for (size_t i = 0; i < bytes / size; i++)
		all[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	return all;
}

static umem_cache_t *
plain(size_t size)
{
	return umem_cache_create(
	    "plain", size, 0, NULL, NULL, NULL, NULL, NULL, 0);
}

static int
construct(void *p, void *priv, int flags)
{
	(void)p;
	(void)priv;
	(void)flags;
	return 0;
}

static umem_cache_t *
made(size_t size)
{
	return umem_cache_create(
	    "made", size, 0, construct, NULL, NULL, NULL, NULL, 0);
}

/*
 * Reclaim on demand leaves constructed objects alone, so only growth of the
 * heap reclaims them.
 */
START_TEST(what_depots_keep_makes_up_for_growth)
{
	umem_cache_t *last = plain(48);
	size_t before = heap_allocated_clean();

	for (size_t i = 1; i <= NPHASES; i++) {
		umem_cache_t *cache = made(i * 64);
		void **all = take_bytes(cache, i * 64, PHASE);

		for (size_t j = 0; j < PHASE / (i * 64); j++)
			umem_cache_free(cache, all[j]);
	}
	take_bytes(last, 48, LATER);
	ck_assert_uint_lt(
	    heap_allocated_clean() - before, LATER + NPHASES * PHASE / 2);
}
END_TEST

START_TEST(idle_large_classes_make_up_for_growth)
{
	umem_cache_t *last = plain(48);
	size_t before = heap_allocated_clean(), total = 0;

	for (unsigned c = size_class_of(128 * KIB); c <= size_class_of(1 * MIB);
	     c++) {
		size_t bytes = size_classes.bytes[c];

		umem_free(umem_alloc(bytes, UMEM_DEFAULT), bytes);
		total += bytes;
	}
	ck_assert_uint_gt(total, 4 * MIB);
	take_bytes(last, 48, LATER);
	ck_assert_uint_lt(heap_allocated_clean() - before, LATER + total / 2);
}
END_TEST

/* A request evicts one object of the class with the most bytes. */
START_TEST(a_large_block_is_evicted_alone)
{
	static const size_t small[] = {160 * KIB, 256 * KIB};
	void *held[3];
	size_t total;

	stay_here();
	for (unsigned i = 0; i < 2; i++)
		held[i] = umem_alloc(small[i], UMEM_DEFAULT);
	held[2] = umem_alloc(1 * MIB, UMEM_DEFAULT);
	for (unsigned i = 0; i < 2; i++)
		umem_free(held[i], small[i]);
	umem_free(held[2], 1 * MIB);
	total = heap_used();
	held[2] = umem_alloc(3 * MIB, UMEM_DEFAULT);
	ck_assert_uint_eq(heap_used() - total, 2 * MIB);
	total = heap_allocated_total();
	for (unsigned i = 0; i < 2; i++)
		held[i] = umem_alloc(small[i], UMEM_DEFAULT);
	ck_assert_uint_eq(heap_allocated_total(), total);
	for (unsigned i = 0; i < 2; i++)
		umem_free(held[i], small[i]);
	umem_free(held[2], 3 * MIB);
}
END_TEST

static void
replace_large(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		/* Neither serves a request for the other. */
		size_t bytes = i % 2 == 0 ? 5 * MIB / 4 : 3 * MIB;

		umem_free(umem_alloc(bytes, UMEM_DEFAULT), bytes);
	}
}

static void
update_twice(void)
{
	for (int i = 0; i < 2; i++) {
		ck_assert(worker_begin());
		update_all();
		worker_end();
	}
}

START_TEST(large_blocks_stay_cached_while_they_circulate)
{
	size_t used = heap_used(), total;

	stay_here();
	replace_large(400);
	total = heap_allocated_total();
	replace_large(200);
	ck_assert_uint_lt(heap_allocated_total() - total, 20 * MIB);
	ck_assert_uint_ge(heap_used() - used, 4 * MIB);
	update_twice();
	ck_assert_uint_lt(heap_used() - used, 1 * MIB);
	/* The program must show again that it circulates them. */
	total = heap_allocated_total();
	replace_large(20);
	ck_assert_uint_ge(heap_allocated_total() - total, 20 * MIB);
}
END_TEST

static const struct {
	size_t freed, least, most;
} purges[] = {
    /* Within the target, above it, and far above it. */
    {4 * MIB, 0, 0},
    {8 * MIB, 2 * MIB, 5 * MIB},
    {LATER, LATER * 2 / 3, LATER},
};

START_TEST(free_pages_of_slabs_make_up_for_growth)
{
	umem_cache_t *first = plain(64), *last = plain(48);
	void **all = take_bytes(first, 64, LATER);

	/*
	 * Some objects of each slab stay in use; the heap grows by as much
	 * again.
	 */
	take_bytes(last, 48, LATER);
	for (size_t i = 0; i < purges[_i].freed / 64; i++)
		if (i % 1000 != 0)
			umem_cache_free(first, all[i]);
	umem_cache_reap_now(first);
	ck_assert_uint_eq(page_purge_bytes(), 0);
	take_bytes(last, 48, LATER / 2);
	ck_assert_uint_ge(page_purge_bytes(), purges[_i].least);
	ck_assert_uint_le(page_purge_bytes(), purges[_i].most);
}
END_TEST

START_TEST(growth_while_somebody_is_at_work_is_not_forgotten)
{
	umem_cache_t *first = plain(64), *last = plain(48);
	void **all = take_bytes(first, 64, LATER);

	take_bytes(last, 48, LATER);
	for (size_t i = 0; i < LATER / 64; i++)
		if (i % 1000 != 0)
			umem_cache_free(first, all[i]);
	umem_cache_reap_now(first);
	ck_assert(worker_begin());
	take_bytes(last, 48, LATER / 2);
	ck_assert_uint_eq(page_purge_bytes(), 0);
	worker_end();
	/* The heap does not grow any more. */
	reclaim_check();
	ck_assert_uint_ge(page_purge_bytes(), LATER * 2 / 3);
}
END_TEST

START_TEST(pressure_grows_with_the_idle_part)
{
	const size_t heap = 1024 * MIB, target = idle_target(heap);
	unsigned last = 0;

	ck_assert_uint_gt(target, 0);
	ck_assert_uint_lt(target, heap);
	for (size_t idle = 0; idle <= heap; idle += heap / 64) {
		unsigned pressure = reclaim_pressure(idle, heap);

		ck_assert_uint_ge(pressure, last);
		ck_assert_uint_le(pressure, RECLAIM_PRESSURE_MAX);
		ck_assert(pressure == 0 || idle > target);
		ck_assert_uint_le(
		    reclaim_age(100, pressure), reclaim_age(100, last));
		last = pressure;
	}
	ck_assert_uint_eq(last, RECLAIM_PRESSURE_MAX);
	/* Little memory may be idle as a whole. */
	ck_assert_uint_eq(reclaim_pressure(MIB, MIB), 0);
	ck_assert_uint_eq(reclaim_pressure(0, 0), 0);
	ck_assert_uint_eq(reclaim_age(100, 0), 100);
}
END_TEST

START_TEST(dirty_pages_exert_pressure)
{
	bool zeroed;
	void *p = heap_alloc(LATER, HEAP_UNIT, &zeroed);

	ck_assert_uint_eq(reclaim_dirty_pressure(), 0);
	ck_assert_uint_eq(reclaim_page_pressure(), 0);
	heap_free(p, LATER);
	ck_assert_uint_eq(reclaim_dirty_pressure(), RECLAIM_PRESSURE_MAX);
	ck_assert_uint_eq(reclaim_page_pressure(), RECLAIM_PRESSURE_MAX);
	ck_assert_uint_ge(heap_purge(0, SIZE_MAX), LATER);
	ck_assert_uint_eq(reclaim_dirty_pressure(), 0);
}
END_TEST

/*
 * Stop the clock, so that only growth and demand reclaim: no update is due, and
 * a test that gets no CPU for a second does not look idle (update.c).
 */
static void
setup(void)
{
	hook_now_ns = os_now_ns();
	update_interval_ns = (uint64_t)1 << 60;
}

struct set {
	umem_cache_t *cache;
	size_t size;
	void **all;
};

/* Allocate all objects of `to` while freeing all objects of `from`. */
static void
go_over(struct set *from, struct set *to)
{
	size_t nold = PHASE / from->size, nnew = PHASE / to->size, old = 0;

	for (size_t i = 0; i < nnew; i++) {
		to->all[i] = umem_cache_alloc(to->cache, UMEM_DEFAULT);
		while (old < nold && old * from->size <= i * to->size)
			umem_cache_free(from->cache, from->all[old++]);
	}
	while (old < nold)
		umem_cache_free(from->cache, from->all[old++]);
}

#define NROUND 24

START_TEST(who_goes_round_some_sizes_needs_little_more_than_one)
{
	struct set set[NROUND];
	size_t before = heap_allocated_clean();

	stay_here();
	for (size_t i = 0; i < NROUND; i++) {
		set[i].size = 512 + 64 * i;
		set[i].cache = plain(set[i].size);
		set[i].all =
		    i == 0 ? take_bytes(set[i].cache, set[i].size, PHASE)
			   : os_map(align_up(
				 PHASE / set[i].size * sizeof(void *), 4096));
	}
	for (int round = 0; round < 50; round++)
		for (size_t i = 0; i < NROUND; i++)
			go_over(&set[i], &set[(i + 1) % NROUND]);
	/*
	 * Without reclaim the heap would grow by one PHASE for each set, and
	 * more.
	 */
	ck_assert_uint_lt(heap_allocated_clean() - before, NROUND / 2 * PHASE);
}
END_TEST

START_TEST(who_uses_one_size_alone_keeps_its_depot)
{
	umem_cache_t *cache = plain(4096);
	void **all = take_bytes(cache, 4096, LATER);
	uint32_t visits = 0;
	size_t kept = 0;

	for (int round = 0; round < 30; round++) {
		for (size_t i = 0; i < LATER / 4096; i++)
			umem_cache_free(cache, all[i]);
		kept = cache_depot_bytes(cache);
		visits = cache->slabs.nacquired;
		for (size_t i = 0; i < LATER / 4096; i++)
			all[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	}
	ck_assert_uint_gt(kept, LATER / 2);
	/* Nearly all objects came from the depot. */
	ck_assert_uint_lt(cache->slabs.nacquired - visits, LATER / 4096 / 100);
}
END_TEST

START_TEST(what_is_constructed_stays_in_its_depot)
{
	umem_cache_t *cache = made(4096);
	void **all = take_bytes(cache, 4096, LATER);
	size_t kept, asked = 0;
	bool zeroed;
	void *again = heap_alloc(LATER / 4, HEAP_UNIT, &zeroed);

	for (size_t i = 0; i < LATER / 4096; i++)
		umem_cache_free(cache, all[i]);
	heap_free(again, LATER / 4);
	kept = magazine_in_depot(&cache->mag);
	ck_assert_uint_gt(kept, 0);
	ck_assert_uint_eq(cache_depot_bytes(cache), 0);
	for (; asked < LATER / 4; asked += MIB / 2) {
		ck_assert_ptr_nonnull(heap_alloc(MIB / 2, HEAP_UNIT, &zeroed));
		reclaim_check();
	}
	ck_assert_uint_eq(cache_flush_depot(cache), 0);
	ck_assert_uint_eq(magazine_in_depot(&cache->mag), kept);
}
END_TEST

/* The memory goes to a caller that is not a cache.  errno is unchanged. */
START_TEST(a_full_depot_is_emptied_when_the_heap_is_asked)
{
	umem_cache_t *cache = plain(4096);
	void **all = take_bytes(cache, 4096, LATER);
	size_t kept, clean, asked = 0;
	bool zeroed;
	void *again = heap_alloc(LATER / 4, HEAP_UNIT, &zeroed);

	stay_here();
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < LATER / 4096; i++)
			umem_cache_free(cache, all[i]);
		kept = cache_depot_bytes(cache);
		if (round < 9)
			for (size_t i = 0; i < LATER / 4096; i++)
				all[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	}
	ck_assert_uint_gt(kept, LATER / 2);
	heap_free(again, LATER / 4);
	reclaim_check();
	ck_assert_uint_eq(cache_depot_bytes(cache), kept);
	clean = heap_allocated_clean();
	/* Less than one step of allocation does not count as demand. */
	ck_assert_ptr_nonnull(heap_alloc(HEAP_UNIT, HEAP_UNIT, &zeroed));
	reclaim_check();
	ck_assert_uint_eq(cache_depot_bytes(cache), kept);
	while (cache_depot_bytes(cache) > heap_committed() / 8) {
		ck_assert_ptr_nonnull(heap_alloc(MIB / 2, HEAP_UNIT, &zeroed));
		asked += MIB / 2;
		errno = 77;
		reclaim_check();
		ck_assert_int_eq(errno, 77);
	}
	/* The heap has not grown, so demand alone caused the reclaim. */
	ck_assert_uint_eq(heap_allocated_clean(), clean);
	ck_assert_uint_lt(asked, LATER / 4);
	ck_assert_uint_lt(slab_total(&cache->slabs) * 4096, LATER / 2);
}
END_TEST

#define NASKERS 8
#define NSIZES  24
/*
 * In a build for ThreadSanitizer, 25 turns take more than a minute, and need
 * more memory.
 */
#ifdef __SANITIZE_THREAD__
#define ASKED_TURNS 3
#define ASKED_BYTES SIZE_MAX
#else
#define ASKED_TURNS 25
#define ASKED_BYTES (5 * NASKERS * PHASE)
#endif

/*
 * Each asker allocates a share of every size.  The first word of an object
 * identifies the asker that owns it.
 */
struct asker {
	pthread_t thread;
	umem_cache_t **cache; /* NULL: use the size classes */
	void **mine[NSIZES];
	unsigned nwrong;
};

static size_t
asked_size(size_t i)
{
	return 512 + 64 * i;
}

static void
take_share(struct asker *asker, size_t size)
{
	for (size_t i = 0; i < PHASE / asked_size(size); i++) {
		void **at = &asker->mine[size][i];

		*at = asker->cache == NULL
			  ? umem_alloc(asked_size(size), UMEM_DEFAULT)
			  : umem_cache_alloc(asker->cache[size], UMEM_DEFAULT);
		*(void ***)*at = at;
	}
}

static void
give_share(struct asker *asker, size_t size)
{
	for (size_t i = 0; i < PHASE / asked_size(size); i++) {
		void **at = &asker->mine[size][i];

		asker->nwrong += *(void ***)*at != at;
		*(void ***)*at = NULL;
		if (asker->cache == NULL)
			umem_free(*at, asked_size(size));
		else
			umem_cache_free(asker->cache[size], *at);
	}
}

static void *
ask(void *arg)
{
	struct asker *asker = arg;

	take_share(asker, 0);
	for (size_t i = 0; i < ASKED_TURNS * NSIZES; i++) {
		take_share(asker, (i + 1) % NSIZES);
		give_share(asker, i % NSIZES);
	}
	give_share(asker, 0);
	return NULL;
}

/* Bytes by which the heap grows for all askers, or 0 after an error. */
static size_t
bytes_to_go_round(bool own_caches)
{
	static struct asker asker[NASKERS];
	umem_cache_t *cache[NSIZES];
	size_t before = heap_allocated_clean();
	unsigned nwrong = 0;

	for (size_t i = 0; i < NSIZES; i++)
		cache[i] = plain(asked_size(i));
	for (unsigned t = 0; t < NASKERS; t++) {
		asker[t].cache = own_caches ? cache : NULL;
		for (size_t i = 0; i < NSIZES; i++)
			asker[t].mine[i] = os_map(align_up(
			    PHASE / asked_size(i) * sizeof(void *), 4096));
		if (pthread_create(&asker[t].thread, NULL, ask, &asker[t]) != 0)
			return 0;
	}
	for (unsigned t = 0; t < NASKERS; t++) {
		pthread_join(asker[t].thread, NULL);
		nwrong += asker[t].nwrong;
	}
	before = heap_allocated_clean() - before;
	for (size_t i = 0; i < NSIZES; i++) {
		if (!own_caches)
			cache[i] = class_cache[size_class_of(asked_size(i))];
		nwrong += cache_live(cache[i]) != 0;
	}
	return nwrong == 0 ? before : 0;
}

/*
 * There are more threads than CPUs, so that the kernel now and then preempts a
 * thread that empties depots.  Each thread has at most two shares, and each CPU
 * has 3 MiB in magazines.  Because a busy machine preempts more threads at
 * once, the test may try again.
 */
START_TEST(several_that_go_round_need_little_more_than_they_have)
{
	int status = 1 << 8;

	stay_on(2);
	for (int i = 0; i < 3 && status == 1 << 8; i++) {
		pid_t child = fork();

		if (child == 0) {
			size_t bytes = bytes_to_go_round(_i == 1);

			_exit(bytes == 0 ? 2 : bytes >= ASKED_BYTES);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
	}
	ck_assert_int_eq(status, 0);
}
END_TEST

Suite *
reclaim_suite(void)
{
	Suite *suite = suite_create("reclaim");
	TCase *tc = tcase_create("reclaim");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, pressure_grows_with_the_idle_part);
	tcase_add_test(tc, dirty_pages_exert_pressure);
	tcase_add_test(tc, what_depots_keep_makes_up_for_growth);
	tcase_add_test(tc, idle_large_classes_make_up_for_growth);
	tcase_add_test(tc, a_large_block_is_evicted_alone);
	tcase_add_test(tc, large_blocks_stay_cached_while_they_circulate);
	tcase_add_loop_test(
	    tc, free_pages_of_slabs_make_up_for_growth, 0, array_size(purges));
	tcase_add_test(tc, growth_while_somebody_is_at_work_is_not_forgotten);
	tcase_add_test(
	    tc, who_goes_round_some_sizes_needs_little_more_than_one);
	tcase_add_test(tc, who_uses_one_size_alone_keeps_its_depot);
	tcase_add_test(tc, what_is_constructed_stays_in_its_depot);
	tcase_add_test(tc, a_full_depot_is_emptied_when_the_heap_is_asked);
	tcase_add_loop_test(
	    tc, several_that_go_round_need_little_more_than_they_have, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}
