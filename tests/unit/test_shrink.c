/*
 * test_shrink.c - a block that shrinks stays in place only after moves of such
 * blocks were in vain
 */
#include <check.h>

#include "tests/unit/child.h"
#include "umem/malloc/alloc.h"
#include "umem/base/ready.h"
#include "umem/malloc/shrink.h"
#include "vmem/heap.h"

#define LARGE 32768
#define SMALL 100

static void
start(void)
{
	ck_assert(umem_ready());
}

/* Shrink a block of LARGE bytes to SMALL; true if it stayed in place. */
static bool
shrink(char **block)
{
	char *old = *block;

	*block = alloc_resize(old, SMALL);
	ck_assert_ptr_nonnull(*block);
	return *block == old;
}

static unsigned
up_and_down(unsigned ntimes)
{
	char *block = alloc_get(LARGE);
	unsigned nkept = 0;

	for (unsigned i = 0; i < ntimes; i++) {
		nkept += shrink(&block);
		block = alloc_resize(block, LARGE);
		ck_assert_uint_ge(alloc_usable(block, "test"), LARGE);
	}
	alloc_free(block);
	return nkept;
}

/* Shrink each block once; then keep it as it is, or free it. */
static unsigned
cut(unsigned nblocks, bool freed)
{
	unsigned nkept = 0;

	for (unsigned i = 0; i < nblocks; i++) {
		char *block = alloc_get(LARGE);

		nkept += shrink(&block);
		if (freed)
			alloc_free(block);
	}
	return nkept;
}

START_TEST(a_block_that_goes_up_and_down_is_hardly_ever_moved)
{
	ck_assert_uint_ge(up_and_down(1000), 900);
	/* Even then a move is tried now and again. */
	ck_assert_uint_lt(up_and_down(1000), 1000);
}
END_TEST

START_TEST(blocks_that_shrink_once_are_moved)
{
	ck_assert_uint_eq(cut(10000, /* freed */ false), 0);
}
END_TEST

START_TEST(blocks_that_shrink_and_are_freed_are_moved)
{
	ck_assert_uint_eq(cut(10000, /* freed */ true), 0);
}
END_TEST

START_TEST(a_program_that_changes_its_behaviour_wastes_the_budget_at_most)
{
	size_t budget_max;
	unsigned nkept;

	up_and_down(1000);
	budget_max = heap_committed() / 4 + MIB;
	nkept = cut(10000, /* freed */ false);
	ck_assert_uint_gt(nkept, 0);
	ck_assert_uint_le(nkept, budget_max / (LARGE - SMALL));
	ck_assert_uint_eq(cut(100, /* freed */ false), 0);
}
END_TEST

/* One move in four is wrong.  The other three cost more than it earns. */
START_TEST(few_wrong_moves_earn_no_budget_for_long)
{
	static char *few[4];
	unsigned nkept = 0;
	const unsigned n = 100000;

	for (unsigned i = 0; i < n; i++) {
		char *block = alloc_get(LARGE);

		nkept += shrink(&block);
		few[i % 4] = block;
		if (i % 4 == 3)
			few[0] = alloc_resize(few[0], LARGE);
		if (i % 4 == 3)
			alloc_free(few[0]);
	}
	ck_assert_uint_lt(nkept, n / 2);
}
END_TEST

START_TEST(a_block_that_regrows_is_what_it_was)
{
	char *block = alloc_get(LARGE);

	up_and_down(100);
	while (shrink(&block))
		block = alloc_resize(block, LARGE);
	/* The block has shrunk by one step only. */
	block = alloc_resize(block, 2 * SMALL);
	ck_assert_uint_eq(alloc_usable(block, "test"), LARGE);
	alloc_free(block);
}
END_TEST

START_TEST(without_budget_every_block_that_shrinks_is_moved)
{
	ck_assert(!shrink_keeps_in_place(LARGE, SMALL));
	ck_assert(!shrink_keeps_in_place(128, 1));
	ck_assert(shrink_keeps_in_place(128, 128));
	ck_assert_uint_eq(shrink_grow(&start, 17), 17);
}
END_TEST

Suite *
shrink_suite(void)
{
	Suite *s = suite_create("shrink");
	TCase *tc = tcase_create("shrink");

	tcase_add_checked_fixture(tc, start, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_block_that_goes_up_and_down_is_hardly_ever_moved);
	tcase_add_test(tc, blocks_that_shrink_once_are_moved);
	tcase_add_test(tc, blocks_that_shrink_and_are_freed_are_moved);
	tcase_add_test(
	    tc, a_program_that_changes_its_behaviour_wastes_the_budget_at_most);
	tcase_add_test(tc, few_wrong_moves_earn_no_budget_for_long);
	tcase_add_test(tc, a_block_that_regrows_is_what_it_was);
	tcase_add_test(tc, without_budget_every_block_that_shrinks_is_moved);
	suite_add_tcase(s, tc);
	return s;
}
