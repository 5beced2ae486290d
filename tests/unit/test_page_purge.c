/*
 * test_page_purge.c - free pages in slabs that are in use are purged
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "umem/slab/slab_inner.h"
#include "tests/unit/store.h"
#include "umem/base/page_map.h"
#include "vmem/os.h"

static size_t
resident_bytes(uintptr_t from, size_t bytes)
{
	size_t page = os_page_size(), n = 0;
	unsigned char in[512];

	ck_assert_uint_le(bytes / page, sizeof(in));
	ck_assert_int_eq(mincore((void *)from, bytes, in), 0);
	for (size_t i = 0; i < bytes / page; i++)
		n += in[i] & 1;
	return n * page;
}

/* Fill chunk i with a byte made from its number. */
static void
fill(unsigned i)
{
	memset(chunks[i], (int)(i % 251 + 1), store.layout.chunk);
}

static bool
is_filled(unsigned i)
{
	const unsigned char *p = chunks[i];

	for (size_t j = 0; j < store.layout.chunk; j++)
		if (p[j] != i % 251 + 1)
			return false;
	return true;
}

/*
 * Fill slabs, keep every nth chunk and free the others.  The kept chunks are
 * moved to the front of chunks[].
 */
static unsigned
make_sparse(unsigned nslabs, unsigned nth)
{
	unsigned n = take_all(nslabs * store.layout.nchunks);
	unsigned nkept = 0;

	qsort(chunks, n, sizeof(chunks[0]), by_address);
	for (unsigned i = 0; i < n; i++)
		memset(chunks[i], 0xff, store.layout.chunk);
	for (unsigned i = 0; i < n; i += nth, nkept++) {
		void *p = chunks[i];

		chunks[i] = chunks[nkept];
		chunks[nkept] = p;
		fill(nkept);
	}
	give(chunks + nkept, n - nkept);
	return nkept;
}

static const size_t purge_sizes[] = {64, 512, 1000, 2560, 4096, 6000, 20480};

/* The parts of a slab that are still purged after these chunks were taken. */
static uint64_t
purged_after(const struct slab *slab, uint64_t purged, void **taken, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)taken[i] - slab->span;
		uintptr_t end = at + store.layout.chunk;

		if (at >= store.layout.slab_bytes)
			continue;
		for (unsigned part = 0; part < 64; part++)
			if (part * store.part_bytes < end &&
			    (part + 1) * store.part_bytes > at)
				purged &= ~((uint64_t)1 << part);
	}
	return purged;
}

/*
 * Take `want` chunks to chunks + n.  Exactly the parts that hold them must stop
 * being marked as purged.
 */
static unsigned
take_purged(unsigned n, unsigned want)
{
	struct slab *slab[2] = {
	    page_map_owner(chunks[0]), page_map_owner(chunks[n - 1])};
	uint64_t purged[2] = {slab[0]->purged_parts, slab[1]->purged_parts};
	unsigned got = 0;

	/*
	 * Take them in batches that begin and end inside words of the bitmap.
	 */
	for (unsigned piece = 1; got < want; piece += 7)
		got += slab_take(&store, chunks + n + got,
		    piece < want - got ? piece : want - got);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(slab[i]->purged_parts,
		    purged_after(slab[i], purged[i], chunks + n, got));
	return got;
}

START_TEST(a_purge_takes_the_pages_that_nobody_uses_and_no_other)
{
	size_t chunk = purge_sizes[_i], page = os_page_size();
	size_t bytes, purged, before, idle = 0;
	uintptr_t span;
	unsigned n;

	start(chunk, 16, false);
	bytes = store.layout.slab_bytes;
	n = make_sparse(2, store.layout.nchunks > 100 ? 100 : 3);
	span = align_down((uintptr_t)chunks[0], HEAP_UNIT);
	before = resident_bytes(span, bytes);
	/* Find the idle pages from the addresses of the chunks in use. */
	for (uintptr_t at = span; at < span + bytes; at += page) {
		bool used = false;

		for (unsigned i = 0; i < n; i++)
			used |= (uintptr_t)chunks[i] < at + page &&
				(uintptr_t)chunks[i] + chunk > at;
		idle += used ? 0 : page;
	}
	purged = page_purge(&store, SIZE_MAX);
	check();
	ck_assert_uint_ge(purged, idle);
	ck_assert_uint_eq(page_purge_bytes(), purged);
	ck_assert_uint_eq(resident_bytes(span, bytes), bytes - idle);
	ck_assert_uint_le(bytes - idle, before);
	for (unsigned i = 0; i < n; i++)
		ck_assert(is_filled(i));
	ck_assert_uint_eq(page_purge(&store, SIZE_MAX), 0);
	/*
	 * Pages become resident when their chunks are taken, and are purged
	 * again.
	 */
	unsigned more = take_purged(n, store.layout.nchunks / 2);
	for (unsigned i = n; i < n + more; i++)
		fill(i);
	check();
	for (unsigned i = 0; i < n + more; i++)
		ck_assert(is_filled(i));
	give(chunks, n + more);
	slab_reap(&store, 0);
	ck_assert_uint_eq(page_purge_bytes(), 0);
	ck_assert_uint_eq(store.nslabs, 0);
}
END_TEST

START_TEST(a_purge_ends_at_its_limit_and_goes_on_there)
{
	size_t purged, all = 0;
	unsigned npurges = 0;

	start(2048, 16, false);
	make_sparse(2, 16);
	while ((purged = page_purge(&store, 1)) != 0) {
		ck_assert_uint_lt(purged, store.layout.slab_bytes);
		all += purged;
		npurges++;
		check();
	}
	ck_assert_uint_eq(npurges, 2);
	ck_assert_uint_eq(all, page_purge_bytes());
	/* After a free into it, a slab is purged again. */
	give(chunks, 1);
	ck_assert_uint_gt(page_purge(&store, SIZE_MAX), 0);
}
END_TEST

START_TEST(a_purge_that_the_kernel_refuses_changes_nothing)
{
	unsigned n;

	start(1024, 16, false);
	n = make_sparse(2, 20);
	os_fail_nth(1, 1000);
	ck_assert_uint_eq(page_purge(&store, SIZE_MAX), 0);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(page_purge_bytes(), 0);
	check();
	for (unsigned i = 0; i < n; i++)
		ck_assert(is_filled(i));
	/*
	 * The next purge finds both slabs, though no chunk was freed meanwhile.
	 */
	ck_assert_uint_gt(
	    page_purge(&store, SIZE_MAX), store.layout.slab_bytes);
	check();
}
END_TEST

START_TEST(what_is_constructed_is_not_purged)
{
	start(1024, 16, true);
	for (unsigned i = 0; i < 10; i++) {
		bool raw;

		chunks[i] = slab_take_one(&store, &raw);
		ck_assert(raw);
		slab_constructed(&store, chunks[i]);
	}
	give(chunks, 9);
	ck_assert_uint_eq(page_purge(&store, SIZE_MAX), 0);
}
END_TEST

START_TEST(a_slab_more_than_half_used_is_purged_too)
{
	size_t page = os_page_size(), bytes;

	start(1024, 16, false);
	take_all(store.layout.nchunks);
	qsort(chunks, store.layout.nchunks, sizeof(chunks[0]), by_address);
	give(chunks, store.layout.nchunks / 3);
	bytes = page_purge(&store, SIZE_MAX);
	ck_assert_uint_gt(bytes + 2 * page, store.layout.nchunks / 3 * 1024);
	ck_assert_uint_eq(page_purge_bytes(), bytes);
	check();
	give(chunks + store.layout.nchunks / 3, store.layout.nchunks / 3);
	ck_assert_uint_gt(page_purge(&store, SIZE_MAX), 0);
}
END_TEST

static bool purged_enough; /* [atomic] */

static void *
purge_all_the_time(void *arg)
{
	size_t *purged = arg;

	while (!__atomic_load_n(&purged_enough, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(purged, page_purge(&store, 4 * HEAP_UNIT),
		    __ATOMIC_RELAXED);
		sched_yield();
	}
	return NULL;
}

/*
 * The heap's memory is zero in this test except for stamps, and each thread
 * clears its stamps.
 */
START_TEST(a_purge_beside_threads_takes_nothing_that_they_have)
{
	pthread_t purger;
	size_t purged = 0;

	start(2000, 8, false);
	ck_assert_int_eq(
	    pthread_create(&purger, NULL, purge_all_the_time, &purged), 0);
	/*
	 * The purger may not have run while there were pages to purge, so
	 * repeat.
	 */
	for (int i = 0;
	     i < 50 && __atomic_load_n(&purged, __ATOMIC_RELAXED) == 0; i++)
		churn_together();
	__atomic_store_n(&purged_enough, true, __ATOMIC_RELAXED);
	pthread_join(purger, NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_gt(purged, 0);
	check();
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(page_purge_bytes(), 0);
}
END_TEST

/* Runs in a child that was forked while a purge had isolated a slab. */
static int
live_on_without_purge(unsigned n, bool purges)
{
	void *bad;

	if (!slab_store_check(&store))
		return 1;
	/* If purges is false, the child ends without a purge. */
	if (purges)
		page_purge(&store, SIZE_MAX);
	if ((purges && store.isolated != NULL) || !slab_store_check(&store))
		return 2;
	for (unsigned i = 0; i < n; i++)
		if (!is_filled(i))
			return 3;
	if (slab_give(&store, chunks, n, &bad) != SLAB_FINE)
		return 4;
	if (!slab_store_end(&store) || page_purge_bytes() != 0)
		return 5;
	return 0;
}

static bool purge_ended; /* [atomic] */

static void *
purge_once(void *arg)
{
	*(size_t *)arg = page_purge(&store, SIZE_MAX);
	__atomic_store_n(&purge_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Wait until a purge has isolated a slab; then return true with the lock held.
 * This is possible because a purge does not hold the lock during the system
 * call.
 */
static bool
saw_isolated(void)
{
	while (!__atomic_load_n(&purge_ended, __ATOMIC_ACQUIRE)) {
		lock_take(&store.lock);
		if (store.isolated != NULL)
			return true;
		lock_release(&store.lock);
		sched_yield();
	}
	return false;
}

START_TEST(a_purge_keeps_nobody_waiting_and_may_be_lost_by_a_fork)
{
	int nseen = 0;

	start(2048, 16, false);
	for (int i = 0; i < 1000 && nseen < 6; i++) {
		pthread_t purger;
		size_t purged = 0;
		pid_t child;
		int status;
		unsigned n = make_sparse(32, 16);

		purge_ended = false;
		ck_assert_int_eq(
		    pthread_create(&purger, NULL, purge_once, &purged), 0);
		if (saw_isolated()) {
			child = fork();
			lock_release(&store.lock);
			if (child == 0)
				_exit(live_on_without_purge(n, nseen % 2 == 0));
			ck_assert_int_eq(waitpid(child, &status, 0), child);
			ck_assert_int_eq(status, 0);
			nseen++;
		}
		pthread_join(purger, NULL);
		ck_assert_ptr_null(store.isolated);
		check();
		ck_assert_uint_gt(purged, 0);
		ck_assert_uint_eq(page_purge_bytes(), purged);
		give(chunks, n);
		ck_assert(slab_store_end(&store));
	}
	ck_assert_int_gt(nseen, 1);
}
END_TEST

/* The colour of some slabs is at least a page. */
START_TEST(a_range_before_the_first_chunk_or_behind_the_last_is_free)
{
	size_t page = os_page_size(), bytes, end;
	struct slab *slab = NULL;
	uintptr_t first = 0;

	start(6000, 16, false);
	bytes = store.layout.slab_bytes;
	for (unsigned i = 0; i < MOST && first < page; i++) {
		ck_assert_uint_eq(slab_take(&store, chunks + i, 1), 1);
		slab = page_map_owner(chunks[i]);
		first = slab_first(&store, slab) - slab->span;
	}
	ck_assert_uint_ge(first, page);
	/* The chunk that was taken last is the first one of its slab. */
	ck_assert(slab_range_is_free(&store, slab, 0, page));
	ck_assert(slab_range_is_free(&store, slab, 0, first));
	ck_assert(!slab_range_is_free(&store, slab, 0, first + 1));
	ck_assert(!slab_range_is_free(&store, slab, first + 5999, bytes));
	ck_assert(slab_range_is_free(&store, slab, first + 6000, bytes));
	end = first + store.layout.nchunks * 6000;
	ck_assert(slab_range_is_free(&store, slab, end, bytes));
	ck_assert_uint_eq(slab_take(&store, chunks, store.layout.nchunks - 1),
	    store.layout.nchunks - 1);
	ck_assert(slab_range_is_free(&store, slab, end, bytes));
	ck_assert(!slab_range_is_free(&store, slab, end - 1, bytes));
}
END_TEST

Suite *
page_purge_suite(void)
{
	Suite *suite = suite_create("page_purge");
	TCase *tc = tcase_create("page_purge");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc,
	    a_purge_takes_the_pages_that_nobody_uses_and_no_other, 0,
	    array_size(purge_sizes));
	tcase_add_test(tc, a_purge_ends_at_its_limit_and_goes_on_there);
	tcase_add_test(tc, a_purge_that_the_kernel_refuses_changes_nothing);
	tcase_add_test(tc, what_is_constructed_is_not_purged);
	tcase_add_test(tc, a_slab_more_than_half_used_is_purged_too);
	tcase_add_test(tc, a_purge_beside_threads_takes_nothing_that_they_have);
	tcase_add_test(
	    tc, a_purge_keeps_nobody_waiting_and_may_be_lost_by_a_fork);
	tcase_add_test(
	    tc, a_range_before_the_first_chunk_or_behind_the_last_is_free);
	suite_add_tcase(suite, tc);
	return suite;
}
