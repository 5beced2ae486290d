/* test_depot.c - full and empty magazines, their working set, and threads */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "magazine/depot.h"
#include "vmem/meta.h"

#define NMAGS 40

static struct depot depot;

static struct magazine *
magazine(unsigned nrounds)
{
	struct magazine *mag = meta_alloc(magazine_bytes(6));

	ck_assert_ptr_nonnull(mag);
	mag->capacity = 6;
	mag->nrounds = nrounds;
	return mag;
}

static void
setup(void)
{
	depot_init(&depot);
	depot.full_max = 3;
}

static unsigned
length(const struct magazine *chain)
{
	unsigned n = 0;

	for (; chain != NULL; chain = chain->next)
		n++;
	return n;
}

static void
surplus_is(unsigned nfull, unsigned nempty)
{
	struct magazine *full, *empty;

	depot_take_surplus(&depot, &full, &empty);
	ck_assert_uint_eq(length(full), nfull);
	ck_assert_uint_eq(length(empty), nempty);
	ck_assert(depot_check(&depot));
}

START_TEST(an_empty_depot_gives_nothing_and_keeps_nothing)
{
	struct magazine *full = magazine(6), *empty = magazine(0);

	ck_assert_ptr_null(depot_trade(&depot, true, NULL));
	ck_assert_ptr_null(depot_trade(&depot, false, NULL));
	ck_assert_ptr_null(depot_trade(&depot, true, empty));
	ck_assert_ptr_null(depot_trade(&depot, true, NULL));
	ck_assert_ptr_null(depot_trade(&depot, false, full));
	ck_assert_ptr_null(depot_trade(&depot, false, NULL));
	ck_assert_uint_eq(depot.full.n + depot.empty.n, 0);
	depot_put(&depot, empty);
	ck_assert_ptr_eq(depot_trade(&depot, false, NULL), empty);
	ck_assert_uint_eq(depot.full.n + depot.empty.n, 0);
	ck_assert(depot_check(&depot));
	surplus_is(0, 0);
}
END_TEST

START_TEST(a_trade_is_one_for_one)
{
	struct magazine *full = magazine(6), *empty = magazine(0);

	ck_assert(!depot_put(&depot, full));
	ck_assert_ptr_eq(depot_trade(&depot, true, empty), full);
	ck_assert_uint_eq(depot.full.n, 0);
	ck_assert_uint_eq(depot.empty.n, 1);
	ck_assert_ptr_eq(depot_trade(&depot, false, full), empty);
	ck_assert_uint_eq(depot.full.n, 1);
	ck_assert_uint_eq(depot.empty.n, 0);
	ck_assert_ptr_eq(depot_trade(&depot, true, NULL), full);
	ck_assert_uint_eq(depot.full.n + depot.empty.n, 0);
	ck_assert(depot_check(&depot));
}
END_TEST

START_TEST(a_put_says_when_there_is_more_than_worth_keeping)
{
	for (unsigned i = 1; i <= 6; i++)
		ck_assert_int_eq(
		    depot_put(&depot, magazine(i)), i > depot.full_max);
	ck_assert_uint_eq(depot_rounds(&depot), 1 + 2 + 3 + 4 + 5 + 6);
	/*
	 * Last in, first out, because the latest magazine is warm in the cache.
	 */
	ck_assert_uint_eq(depot_trade(&depot, true, NULL)->nrounds, 6);
	ck_assert_uint_eq(depot_rounds(&depot), 15);
	ck_assert(
	    !depot_put(&depot, magazine(1)) || depot.full.n > depot.full_max);
}
END_TEST

START_TEST(surplus_is_what_was_not_missed_for_a_period)
{
	struct magazine *mag;

	for (unsigned i = 0; i < 10; i++) {
		depot_put(&depot, magazine(6));
		depot_put(&depot, magazine(0));
	}
	/* All magazines have just arrived, so none counts as surplus yet. */
	surplus_is(0, 0);
	/* At most four full magazines and one empty one are out at a time. */
	struct magazine *out[4];
	for (unsigned i = 0; i < 4; i++)
		out[i] = depot_trade(&depot, true, NULL);
	for (unsigned i = 0; i < 4; i++)
		depot_put(&depot, out[i]);
	mag = depot_trade(&depot, false, NULL);
	depot_put(&depot, mag);
	surplus_is(6, 9);
	ck_assert_uint_eq(depot.full.n, 4);
	ck_assert_uint_eq(depot.empty.n, 1);
	/* A new period begins.  The rest was not missed in it. */
	surplus_is(4, 1);
	surplus_is(0, 0);
}
END_TEST

START_TEST(a_list_that_was_empty_once_has_no_surplus)
{
	struct magazine *mag;

	depot_put(&depot, magazine(6));
	surplus_is(0, 0);
	mag = depot_trade(&depot, true, NULL);
	for (unsigned i = 0; i < 5; i++)
		depot_put(&depot, magazine(6));
	depot_put(&depot, mag);
	surplus_is(0, 0);
	surplus_is(6, 0);
}
END_TEST

START_TEST(the_coldest_magazines_go_first)
{
	struct magazine *full, *empty, *cold = magazine(1), *warm = magazine(2);

	depot_put(&depot, cold);
	depot_put(&depot, warm);
	surplus_is(0, 0);
	depot_put(&depot, depot_trade(&depot, true, NULL));
	depot_take_surplus(&depot, &full, &empty);
	ck_assert_ptr_eq(full, cold);
	ck_assert_ptr_null(full->next);
	ck_assert_ptr_eq(depot_trade(&depot, true, NULL), warm);
}
END_TEST

START_TEST(all_can_be_taken)
{
	struct magazine *full, *empty;

	for (unsigned i = 0; i < 7; i++)
		depot_put(&depot, magazine(6));
	for (unsigned i = 0; i < 3; i++)
		depot_put(&depot, magazine(0));
	surplus_is(0, 0);
	depot_take_all(&depot, &full, &empty);
	ck_assert_uint_eq(length(full), 7);
	ck_assert_uint_eq(length(empty), 3);
	ck_assert(depot_check(&depot));
	ck_assert_uint_eq(depot_rounds(&depot), 0);
	depot_put(&depot, full);
	surplus_is(0, 0);
}
END_TEST

START_TEST(the_check_sees_what_is_wrong)
{
	struct magazine *mag = magazine(6), *empty = magazine(0);

	depot_put(&depot, mag);
	mag->nrounds = 0;
	ck_assert(!depot_check(&depot));
	mag->nrounds = 7;
	ck_assert(!depot_check(&depot));
	mag->nrounds = 6;
	depot.full.n = 2;
	ck_assert(!depot_check(&depot));
	depot.full.n = 1;
	depot.full.low = 2;
	ck_assert(!depot_check(&depot));
	depot.full.low = 1;
	ck_assert(depot_check(&depot));
	depot_put(&depot, empty);
	empty->nrounds = 1;
	ck_assert(!depot_check(&depot));
}
END_TEST

static uint32_t holder[NMAGS]; /* [atomic] 1: held by a thread */
static struct magazine *mags[NMAGS];
static uint32_t nwrong; /* [atomic] */
static uint32_t stop;   /* [atomic] */

static struct magazine *
hold(struct magazine *mag, bool rounds)
{
	if (mag == NULL)
		return NULL;
	uintptr_t i = (uintptr_t)mag->round[0];

	if (mags[i] != mag || (mag->nrounds != 0) != rounds ||
	    __atomic_exchange_n(&holder[i], 1, __ATOMIC_ACQ_REL) != 0)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	return mag;
}

static struct magazine *
let_go(struct magazine *mag, unsigned nrounds)
{
	mag->nrounds = nrounds;
	__atomic_store_n(
	    &holder[(uintptr_t)mag->round[0]], 0, __ATOMIC_RELEASE);
	return mag;
}

static void
put_chain(struct magazine *chain, bool rounds)
{
	while (chain != NULL) {
		struct magazine *mag = chain;

		chain = chain->next;
		hold(mag, rounds);
		depot_put(&depot, let_go(mag, 6));
	}
}

static void
trade(uint32_t x)
{
	struct magazine *full, *empty;

	if (x % 64 == 0) {
		depot_take_surplus(&depot, &full, &empty);
		put_chain(full, true);
		put_chain(empty, false);
	} else if (x % 5 == 0) {
		if ((full = hold(depot_trade(&depot, true, NULL), true)) !=
		    NULL)
			depot_put(&depot, let_go(full, 0));
	} else if (x % 5 == 1) {
		if ((empty = hold(depot_trade(&depot, false, NULL), false)) !=
		    NULL)
			depot_put(&depot, let_go(empty, 3));
	} else if ((full = hold(depot_trade(&depot, true, NULL), true)) !=
		   NULL) {
		/* Trade a full magazine for an empty one, then put one back. */
		empty = depot_trade(&depot, false, let_go(full, 6));
		if (empty == NULL)
			depot_put(&depot, full);
		else
			depot_put(&depot, let_go(hold(empty, false), 0));
	}
}

static void *
trade_always(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		x = x * 1664525 + 1013904223;
		trade(x >> 12);
		if (x >> 28 == 0)
			sched_yield();
	}
	return NULL;
}

START_TEST(no_magazine_is_lost_or_had_twice)
{
	pthread_t thread[5];
	struct magazine *full, *empty;

	for (uintptr_t i = 0; i < NMAGS; i++) {
		mags[i] = magazine(i % 2 == 0 ? 6 : 0);
		mags[i]->round[0] = (void *)i;
		if (i % 2 == 0)
			depot_put(&depot, mags[i]);
		else
			depot_put(&depot, mags[i]);
	}
	for (uintptr_t i = 0; i < 5; i++)
		pthread_create(&thread[i], NULL, trade_always, (void *)i);
	for (int i = 0; i < 200; i++) {
		usleep(1000);
		ck_assert(depot_check(&depot));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 5; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert(depot_check(&depot));
	depot_take_all(&depot, &full, &empty);
	ck_assert_uint_eq(length(full) + length(empty), NMAGS);
}
END_TEST

static void *
take_one(void *arg)
{
	(void)arg;
	return depot_trade(&depot, true, NULL);
}

START_TEST(a_lock_that_was_not_free_is_counted)
{
	pthread_t thread;

	/* An empty depot is seen without the lock. */
	lock_take(&depot.lock);
	ck_assert_ptr_null(depot_trade(&depot, true, NULL));
	ck_assert_ptr_null(depot_trade(&depot, false, NULL));
	lock_release(&depot.lock);
	depot_put(&depot, magazine(6));
	ck_assert_uint_eq(depot.ncontended, 0);
	lock_take(&depot.lock);
	pthread_create(&thread, NULL, take_one, NULL);
	while (__atomic_load_n(&depot.ncontended, __ATOMIC_RELAXED) == 0)
		usleep(100);
	lock_release(&depot.lock);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(depot.ncontended, 1);
}
END_TEST

Suite *
depot_suite(void)
{
	Suite *suite = suite_create("depot");
	TCase *tcase = tcase_create("depot");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, an_empty_depot_gives_nothing_and_keeps_nothing);
	tcase_add_test(tcase, a_trade_is_one_for_one);
	tcase_add_test(tcase, a_put_says_when_there_is_more_than_worth_keeping);
	tcase_add_test(tcase, surplus_is_what_was_not_missed_for_a_period);
	tcase_add_test(tcase, a_list_that_was_empty_once_has_no_surplus);
	tcase_add_test(tcase, the_coldest_magazines_go_first);
	tcase_add_test(tcase, all_can_be_taken);
	tcase_add_test(tcase, the_check_sees_what_is_wrong);
	tcase_add_test(tcase, no_magazine_is_lost_or_had_twice);
	tcase_add_test(tcase, a_lock_that_was_not_free_is_counted);
	suite_add_tcase(suite, tcase);
	return suite;
}
