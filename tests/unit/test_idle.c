/*
 * test_idle.c - detection that a program is idle and does not need its freed
 * memory
 */
#include <check.h>
#include <stdint.h>

#include "magazine/magazine.h"
#include "tests/unit/stay.h"
#include "umem/malloc/alloc.h"
#include "umem/base/ready.h"
#include "umem/upkeep/idle.h"

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

/*
 * Ticks until the program is predicted to be idle, or 0 if it is not within
 * ten.
 */
static unsigned
ticks_until_idle(uint64_t now, bool pressure)
{
	for (unsigned i = 1; i <= 10; i++)
		if (idle_by_push_count(now, pressure))
			return i;
	return 0;
}

/*
 * Release memory on a prediction of idleness; after `then` ns the heap grows by
 * half of it.
 */
static void
grow_after(uint64_t now, uint64_t then)
{
	idle_predicted(now, DIRTY, 0);
	idle_heap_grew(now + then, DIRTY / 2 - 1);
	idle_heap_grew(now + then, DIRTY / 2);
}

START_TEST(a_program_without_slow_paths_is_idle)
{
	ck_assert_uint_ge(ticks_until_idle(SEC, true), 2);
	for (int i = 0; i < 10; i++) {
		idle_note_activity(SEC);
		ck_assert(!idle_by_push_count(SEC, true));
	}
	ck_assert_uint_ge(ticks_until_idle(SEC, true), 2);
	ck_assert_uint_eq(ticks_until_idle(SEC, false), 0);
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
 * Is the program predicted to be idle at the last of three ticks, if it
 * allocates or frees n blocks before that tick?
 */
static bool
is_idle_while(void **block, unsigned n, bool more)
{
	idle_note_activity(SEC);
	ck_assert(!idle_by_push_count(SEC, true));
	ck_assert(!idle_by_push_count(SEC, true));
	for (unsigned i = 0; i < n; i++)
		step(block, i, more);
	/*
	 * Some of these calls exchange magazines.  The test is not about
	 * exchanges, so reset their count.
	 */
	magazine_exchanged = 0;
	return idle_by_push_count(SEC, true);
}

START_TEST(a_program_that_still_frees_or_fills_is_not_idle)
{
	void *block[MOST];
	unsigned nidle = 0;

	/*
	 * Exchanged magazines may hide some of the changes, but not every time.
	 */
	for (unsigned i = 0; i < 8; i++) {
		nidle += is_idle_while(block, MOST, /* more */ true);
		nidle += is_idle_while(block, MOST, /* more */ false);
	}
	ck_assert_uint_le(nidle, 4);
	ck_assert(is_idle_while(block, 4, /* more */ true));
	ck_assert(is_idle_while(block, 4, /* more */ false));
}
END_TEST

START_TEST(a_program_without_a_slow_path_for_an_age_is_idle)
{
	const uint64_t age = SEC / 2;

	idle_note_activity(SEC);
	ck_assert(!idle_by_time(SEC, age));
	/* A thread may pass a time that it read earlier. */
	ck_assert(!idle_by_time(SEC / 2, age));
	ck_assert(!idle_by_time(SEC + age, age));
	ck_assert(idle_by_time(SEC + age + 1, age));
}
END_TEST

/* Quiet ticks until the program is predicted to be idle. */
static unsigned
patience(uint64_t now)
{
	unsigned n = 1;

	idle_note_activity(now);
	idle_by_push_count(now, true);
	while (!idle_by_push_count(now, true))
		n++;
	return n;
}

START_TEST(each_misprediction_doubles_patience)
{
	unsigned before = patience(SEC);

	ck_assert_uint_ge(before, 2);
	for (unsigned i = 0; i < 6; i++) {
		grow_after(SEC, SEC / 20);
		ck_assert_uint_eq(patience(SEC), 2 * before);
		before *= 2;
	}
}
END_TEST

/* A prediction is right if the memory is needed late, or less than half. */
START_TEST(a_correct_prediction_halves_patience)
{
	uint64_t now = SEC;
	unsigned least = patience(now);

	for (unsigned i = 0; i < 4; i++)
		grow_after(now, SEC / 20);
	for (unsigned i = 8; i >= 1; i /= 2) {
		idle_predicted(now, DIRTY, 0);
		idle_heap_grew(now + SEC / 2, DIRTY / 2 - 1);
		now += 2 * SEC;
		if (i % 3 == 2)
			idle_heap_grew(now, DIRTY);
		ck_assert_uint_eq(patience(now), i * least);
	}
	grow_after(now, SEC + 1);
	ck_assert_uint_eq(patience(now), least);
}
END_TEST

START_TEST(memory_that_goes_up_and_down_is_mispredicted_a_few_times)
{
	uint64_t now = SEC, begin = now;
	unsigned npredictions = 0;

	/* Each for a tenth of a second, for an hour. */
	while (now - begin < 3600 * SEC) {
		if (ticks_until_idle(now, true) != 0) {
			npredictions++;
			grow_after(now, SEC / 20);
		}
		idle_note_activity(now + SEC / 20);
		now += SEC / 10;
	}
	ck_assert_uint_ge(npredictions, 1);
	ck_assert_uint_le(npredictions, 4);
}
END_TEST

START_TEST(a_child_does_not_check_the_prediction_of_its_parent)
{
	idle_predicted(SEC, DIRTY, 0);
	idle_after_fork();
	idle_heap_grew(SEC, DIRTY);
	ck_assert_uint_ne(ticks_until_idle(SEC, true), 0);
}
END_TEST

Suite *
idle_suite(void)
{
	Suite *suite = suite_create("idle");
	TCase *idle = tcase_create("idle");

	tcase_add_checked_fixture(idle, start, NULL);
	tcase_add_test(idle, a_program_without_slow_paths_is_idle);
	tcase_add_test(idle, a_program_that_still_frees_or_fills_is_not_idle);
	tcase_add_test(idle, a_program_without_a_slow_path_for_an_age_is_idle);
	tcase_add_test(idle, each_misprediction_doubles_patience);
	tcase_add_test(idle, a_correct_prediction_halves_patience);
	tcase_add_test(
	    idle, memory_that_goes_up_and_down_is_mispredicted_a_few_times);
	tcase_add_test(
	    idle, a_child_does_not_check_the_prediction_of_its_parent);
	suite_add_tcase(suite, idle);
	return suite;
}
