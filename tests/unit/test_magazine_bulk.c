/*
 * test_magazine_bulk.c - magazine operations on many rounds, over simulated
 * slabs
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/layer.h"
#include "magazine/shards.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define NWORKERS 4
#define STORM_NS 200000000

static uint32_t stop; /* [atomic] */

static void
stamp_change(void *object, uint32_t from)
{
	uint32_t *at_stamp = object;

	if (at_stamp < stamp || at_stamp >= stamp + NOBJECTS ||
	    __atomic_exchange_n(at_stamp, !from, __ATOMIC_ACQ_REL) != from)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
}

/*
 * Like a cache: take rounds from the magazines first, the rest from the slabs.
 */
static unsigned
get_many(void **objects, unsigned n)
{
	unsigned got = 0;

	while (got < n) {
		unsigned k = magazine_get_bulk(&layer, objects + got, n - got);

		if (k == 0)
			k = slab_take(objects + got, n - got);
		if (k == 0)
			break;
		got += k;
	}
	for (unsigned i = 0; i < got; i++)
		stamp_change(objects[i], 0);
	return got;
}

static void
put_many(void **objects, unsigned n)
{
	unsigned pending = 0;

	for (unsigned i = 0; i < n; i++)
		stamp_change(objects[i], 1);
	while (n > 0) {
		unsigned k = n;

		switch (magazine_put_bulk(&layer, objects, &k, &pending)) {
		case MAGAZINE_OK:
			break;
		case MAGAZINE_TWICE:
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
			/* FALLTHROUGH */
		default:
			k = 1;
			slab_give(objects, 1);
		}
		objects += k;
		n -= k;
	}
	while (pending & WORK_SURPLUS) {
		struct magazine *mag = magazine_surplus(&layer);

		if (mag == NULL)
			break;
		mag->next = NULL;
		flush(mag);
	}
}

START_TEST(a_layer_without_magazines_gives_none)
{
	void *objects[4];

	if (!start(_i, 64, 0))
		return;
	ck_assert_uint_eq(magazine_get_bulk(&layer, objects, 4), 0);
}
END_TEST

/*
 * One call takes the loaded and the previous magazine and several of the depot.
 */
START_TEST(one_call_empties_the_cpu_and_the_depot)
{
	static void *held[2000];
	const unsigned n = 1000;

	if (!start(_i, 64, 0))
		return;
	for (unsigned i = 0; i < n; i++)
		put(&stamp[i]);
	ck_assert_uint_gt(count_moved(), 2);
	ck_assert_uint_eq(magazine_rounds(&layer), n);
	ck_assert_uint_eq(magazine_get_bulk(&layer, held, 1024), n);
	ck_assert_uint_eq(magazine_rounds(&layer), 0);
	for (unsigned i = 0; i < n; i++)
		stamp_change(held[i], 0);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(no_more_than_asked_for)
{
	void *held[100];

	if (!start(_i, 64, 0))
		return;
	for (unsigned i = 0; i < 100; i++)
		put(&stamp[i]);
	for (unsigned n = 1; n < 13; n++)
		ck_assert_uint_eq(magazine_get_bulk(&layer, held, n), n);
	ck_assert_uint_eq(magazine_rounds(&layer), 100 - 12 * 13 / 2);
}
END_TEST

START_TEST(what_is_put_comes_out_again)
{
	static void *objects[1024], *held[1024];

	if (!start(_i, 64, 0))
		return;
	for (unsigned i = 0; i < 1024; i++) {
		objects[i] = &stamp[i];
		stamp[i] = 1;
	}
	put_many(objects, 1024);
	ck_assert_uint_eq(nslab, 0);
	ck_assert_uint_eq(magazine_rounds(&layer), 1024);
	ck_assert_uint_eq(get_many(held, 1024), 1024);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_null_or_a_second_free_ends_a_put_before_it)
{
	void *objects[] = {&stamp[0], &stamp[1], &stamp[2], NULL, &stamp[4]};
	void *twice[] = {&stamp[5], &stamp[6], &stamp[5], &stamp[7]};
	unsigned pending = 0, n = 5;

	if (!start(_i, 64, 0))
		return;
	ck_assert_int_eq(
	    magazine_put_bulk(&layer, objects, &n, &pending), MAGAZINE_OK);
	ck_assert_uint_eq(n, 3);
	n = 2;
	ck_assert_int_eq(magazine_put_bulk(&layer, objects + 3, &n, &pending),
	    MAGAZINE_TWICE);
	ck_assert_uint_eq(n, 0);
	n = 4;
	ck_assert_int_eq(
	    magazine_put_bulk(&layer, twice, &n, &pending), MAGAZINE_OK);
	ck_assert_uint_eq(n, 2);
	/* A second free of one of the two objects that were freed last. */
	n = 2;
	ck_assert_int_eq(
	    magazine_put_bulk(&layer, twice, &n, &pending), MAGAZINE_TWICE);
	ck_assert_uint_eq(n, 0);
	ck_assert_uint_eq(magazine_rounds(&layer), 5);
}
END_TEST

START_TEST(an_owned_header_is_bypassed)
{
	void *objects[2] = {&stamp[0], &stamp[1]}, *held[2];
	struct cpu_owned own;
	unsigned pending = 0, n = 2;

	/* Not in locked mode, where the next CPU's header is free. */
	if (_i == RSEQ_NONE || !start(_i, 64, 0))
		return;
	put(&stamp[2]);
	ck_assert(cpu_acquire(layer.hot, layer.cold, &own));
	ck_assert_uint_eq(magazine_get_bulk(&layer, held, 1), 0);
	ck_assert_int_eq(
	    magazine_put_bulk(&layer, objects, &n, &pending), MAGAZINE_BYPASS);
	ck_assert_uint_eq(n, 0);
	cpu_release(&own);
	ck_assert_uint_eq(magazine_get_bulk(&layer, held, 1), 1);
}
END_TEST

/* A program that frees only in bulk gets its ticks too. */
START_TEST(bulk_frees_count_as_pushes)
{
	void *objects[50], *held[50];
	unsigned ntold = 0;

	if (!start(_i, 64, 0))
		return;
	for (unsigned i = 0; i < 50; i++) {
		objects[i] = &stamp[i];
		stamp[i] = 1;
	}
	put_many(objects, 50);
	cpu_set_tick_pushes(500);
	for (unsigned i = 0; i < 100; i++) {
		unsigned pending = 0, n = 50;

		ck_assert_uint_eq(magazine_get_bulk(&layer, held, 50), 50);
		ck_assert_int_eq(
		    magazine_put_bulk(&layer, objects, &n, &pending),
		    MAGAZINE_OK);
		ck_assert_uint_eq(n, 50);
		ntold += (pending & WORK_TICKED) != 0;
	}
	/*
	 * 5000 pushes with a tick every 500; each late tick delays the next
	 * ones by at most 50 pushes.
	 */
	ck_assert_uint_ge(ntold, 8);
	ck_assert_uint_le(ntold, 10);
}
END_TEST

/*
 * Bulk and single operations concurrent with drains, growth of magazines and
 * other threads.
 */
static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	enum {
		MOST = NOBJECTS / NWORKERS
	};
	void **held = malloc(MOST * sizeof(*held));
	unsigned n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		unsigned goal;

		x = x * 1664525 + 1013904223;
		goal = (x >> 12) % MOST;
		if (n < goal) {
			unsigned want = goal - n < 1024 ? goal - n : 1024;

			n += get_many(held + n, want);
		}
		for (; n > goal && x >> 31 != 0; n--) {
			stamp_change(held[n - 1], 1);
			put(held[n - 1]);
		}
		if (n > goal) {
			unsigned k = n - goal < 1024 ? n - goal : 1024;

			put_many(held + n - k, k);
			n -= k;
		}
	}
	put_many(held, n < 1024 ? n : 1024);
	if (n > 1024)
		put_many(held + 1024, n - 1024);
	free(held);
	return NULL;
}

START_TEST(no_round_is_lost_or_had_twice_in_a_storm)
{
	pthread_t thread[NWORKERS];
	uint64_t end = os_now_ns() + STORM_NS;

	if (!start(_i % 3, 64, 0))
		return;
	restart(1 + (unsigned)_i / 3, 1);
	everywhere();
	fill_slab(NOBJECTS);
	for (uintptr_t i = 0; i < NWORKERS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (unsigned i = 0; os_now_ns() < end; i++) {
		struct magazine *chain = NULL;

		if (i % 3 == 0)
			magazine_grow(&layer);
		else if (i % 3 == 1)
			magazine_shrink(&layer);
		else
			magazine_drain(&layer, false, &chain);
		flush(chain);
		for (unsigned k = 0; k < layer.nshards; k++)
			ck_assert(depot_check(magazine_shard(&layer, k)));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < NWORKERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	take_back_all();
	ck_assert_uint_eq(nslab, NOBJECTS);
	for (unsigned i = 0; i < nslab; i++)
		stamp_change(slab[i], 0);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

Suite *
magazine_bulk_suite(void)
{
	Suite *suite = suite_create("magazine_bulk");
	TCase *tcase = tcase_create("magazine_bulk");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, a_layer_without_magazines_gives_none, 0, 3);
	tcase_add_loop_test(
	    tcase, one_call_empties_the_cpu_and_the_depot, 0, 3);
	tcase_add_loop_test(tcase, no_more_than_asked_for, 0, 3);
	tcase_add_loop_test(tcase, what_is_put_comes_out_again, 0, 3);
	tcase_add_loop_test(
	    tcase, a_null_or_a_second_free_ends_a_put_before_it, 0, 3);
	tcase_add_loop_test(tcase, an_owned_header_is_bypassed, 0, 3);
	tcase_add_loop_test(tcase, bulk_frees_count_as_pushes, 0, 3);
	tcase_add_loop_test(
	    tcase, no_round_is_lost_or_had_twice_in_a_storm, 0, 6);
	suite_add_tcase(suite, tcase);
	return suite;
}
