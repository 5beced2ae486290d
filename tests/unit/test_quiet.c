/*
 * test_quiet.c - detection that a program is idle and does not need its freed
 * memory
 */
#include <check.h>
#include <stdint.h>

#include "magazine/magazine.h"
#include "tests/unit/stay.h"
#include "umem/malloc/alloc.h"
#include "umem/base/ready.h"
#include "umem/upkeep/quiet.h"

#define SEC   ((uint64_t)1000000000)
#define DIRTY (512 * MIB)
#define MOST  64

static void
start(void)
{
	stay_here();
	ck_assert(umem_ready());
	/* Do the initialisation of the first call now. */
	alloc_free(alloc_get(100));
}

/* Ticks until the program is judged idle, or 0 if it is not within ten. */
static unsigned
ticks_until_quiet(uint64_t now, bool urgent)
{
	for (unsigned i = 1; i <= 10; i++)
		if (quiet_by_calls(now, urgent))
			return i;
	return 0;
}

/*
 * Release memory on a prediction of idleness; after `then` ns the heap grows by
 * half of it.
 */
static void
wrong_after(uint64_t now, uint64_t then)
{
	quiet_believed(now, DIRTY, 0);
	quiet_grew(now + then, DIRTY / 2 - 1);
	quiet_grew(now + then, DIRTY / 2);
}

START_TEST(nobody_comes_by)
{
	ck_assert_uint_ge(ticks_until_quiet(SEC, true), 2);
	for (int i = 0; i < 10; i++) {
		quiet_ends(SEC);
		ck_assert(!quiet_by_calls(SEC, true));
	}
	ck_assert_uint_ge(ticks_until_quiet(SEC, true), 2);
	ck_assert_uint_eq(ticks_until_quiet(SEC, false), 0);
}
END_TEST

START_TEST(little_is_free)
{
	ck_assert(!quiet_is_urgent(15 * MIB, 0));
	ck_assert(!quiet_is_urgent(DIRTY, DIRTY + 1));
	ck_assert(quiet_is_urgent(DIRTY, DIRTY));
	ck_assert(quiet_is_urgent(16 * MIB, 0));
}
END_TEST

/* Allocate one block, or free one. */
static void
step(void **block, unsigned i, bool more)
{
	if (more) {
		block[i] = alloc_get(100);
		ck_assert_ptr_nonnull(block[i]);
	} else {
		alloc_free(block[i]);
	}
}

/*
 * Is the program judged idle at the last of three ticks, if it allocates or
 * frees n blocks before that tick?
 */
static bool
quiet_while(void **block, unsigned n, bool more)
{
	quiet_ends(SEC);
	ck_assert(!quiet_by_calls(SEC, true));
	ck_assert(!quiet_by_calls(SEC, true));
	for (unsigned i = 0; i < n; i++)
		step(block, i, more);
	/*
	 * Some of these calls exchange magazines.  The test is not about
	 * exchanges, so reset their count.
	 */
	magazine_exchanged = 0;
	return quiet_by_calls(SEC, true);
}

START_TEST(still_freeing_or_filling)
{
	void *block[MOST];
	unsigned nquiet = 0;

	/*
	 * Exchanged magazines may hide some of the changes, but not every time.
	 */
	for (unsigned i = 0; i < 8; i++) {
		nquiet += quiet_while(block, MOST, /* more */ true);
		nquiet += quiet_while(block, MOST, /* more */ false);
	}
	ck_assert_uint_le(nquiet, 4);
	ck_assert(quiet_while(block, 4, /* more */ true));
	ck_assert(quiet_while(block, 4, /* more */ false));
}
END_TEST

START_TEST(time_alone)
{
	quiet_ends(SEC);
	ck_assert(!quiet_by_time(SEC));
	/* A thread may pass a time that it read earlier. */
	ck_assert(!quiet_by_time(SEC / 2));
	ck_assert(!quiet_by_time(SEC + SEC / 2));
	ck_assert(quiet_by_time(SEC + SEC / 2 + 1));
}
END_TEST

START_TEST(wrong_answers_cost_less_and_less)
{
	uint64_t now = SEC, begin = now;
	unsigned nasked = 0;

	/*
	 * Memory use goes up and down, each for a tenth of a second, for an
	 * hour.
	 */
	while (now - begin < 3600 * SEC) {
		if (ticks_until_quiet(now, true) != 0) {
			nasked++;
			wrong_after(now, SEC / 20);
		}
		now += SEC / 10;
	}
	ck_assert_uint_ge(nasked, 8);
	ck_assert_uint_le(nasked, 16);
}
END_TEST

START_TEST(right_answers_earn_trust)
{
	uint64_t now = SEC;

	/* After four mispredictions no prediction is made for eight seconds. */
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_ne(ticks_until_quiet(now, true), 0);
		wrong_after(now, SEC / 20);
		ck_assert_uint_eq(ticks_until_quiet(now + SEC / 10, true), 0);
		now += 9 * SEC;
	}
	/*
	 * A prediction is right if the memory is needed again late, or less
	 * than half of it.
	 */
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_ne(ticks_until_quiet(now, true), 0);
		wrong_after(now, SEC + 1);
		now += 2 * SEC;
	}
	ck_assert_uint_ne(ticks_until_quiet(now, true), 0);
	wrong_after(now, SEC / 20);
	ck_assert_uint_eq(ticks_until_quiet(now + SEC / 2, true), 0);
	ck_assert_uint_ne(ticks_until_quiet(now + SEC + SEC / 10, true), 0);
}
END_TEST

START_TEST(answers_of_the_parent_are_not_judged)
{
	quiet_believed(SEC, DIRTY, 0);
	quiet_after_fork();
	quiet_grew(SEC, DIRTY);
	ck_assert_uint_ne(ticks_until_quiet(SEC, true), 0);
}
END_TEST

Suite *
quiet_suite(void)
{
	Suite *suite = suite_create("quiet");
	TCase *quiet = tcase_create("quiet");

	tcase_add_checked_fixture(quiet, start, NULL);
	tcase_add_test(quiet, nobody_comes_by);
	tcase_add_test(quiet, little_is_free);
	tcase_add_test(quiet, still_freeing_or_filling);
	tcase_add_test(quiet, time_alone);
	tcase_add_test(quiet, wrong_answers_cost_less_and_less);
	tcase_add_test(quiet, right_answers_earn_trust);
	tcase_add_test(quiet, answers_of_the_parent_are_not_judged);
	suite_add_tcase(suite, quiet);
	return suite;
}
