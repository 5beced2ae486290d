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

#define HAD   32768
#define SMALL 100

static void
start(void)
{
	ck_assert(umem_ready());
}

/* Shrink a block of HAD bytes to SMALL; true if it stayed in place. */
static bool
shrink(char **block)
{
	char *was = *block;

	*block = alloc_resize(was, SMALL);
	ck_assert_ptr_nonnull(*block);
	return *block == was;
}

static unsigned
up_and_down(unsigned ntimes)
{
	char *block = alloc_get(HAD);
	unsigned nstayed = 0;

	for (unsigned i = 0; i < ntimes; i++) {
		nstayed += shrink(&block);
		block = alloc_resize(block, HAD);
		ck_assert_uint_ge(alloc_usable(block, "test"), HAD);
	}
	alloc_free(block);
	return nstayed;
}

/* Shrink each block once; then keep it as it is, or free it. */
static unsigned
cut(unsigned nblocks, bool freed)
{
	unsigned nstayed = 0;

	for (unsigned i = 0; i < nblocks; i++) {
		char *block = alloc_get(HAD);

		nstayed += shrink(&block);
		if (freed)
			alloc_free(block);
	}
	return nstayed;
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
	ck_assert_uint_eq(shrink_credit(), 0);
}
END_TEST

START_TEST(blocks_that_shrink_and_are_freed_are_moved)
{
	ck_assert_uint_eq(cut(10000, /* freed */ true), 0);
}
END_TEST

START_TEST(a_program_that_changes_its_ways_has_lost_the_credit_at_most)
{
	size_t credit;
	unsigned nstayed;

	up_and_down(1000);
	credit = shrink_credit();
	ck_assert_uint_gt(credit, 0);
	ck_assert_uint_le(credit, heap_committed() / 4 + MIB);
	nstayed = cut(10000, /* freed */ false);
	ck_assert_uint_gt(nstayed, 0);
	ck_assert_uint_le(nstayed, credit / (HAD - SMALL));
	ck_assert_uint_lt(shrink_credit(), HAD);
}
END_TEST

/* One move in four is in vain.  The other three cost more than it earns. */
START_TEST(regrets_that_are_few_earn_nothing_for_long)
{
	static char *few[4];
	unsigned nstayed = 0;
	const unsigned n = 100000;

	for (unsigned i = 0; i < n; i++) {
		char *block = alloc_get(HAD);

		nstayed += shrink(&block);
		few[i % 4] = block;
		if (i % 4 == 3)
			few[0] = alloc_resize(few[0], HAD);
		if (i % 4 == 3)
			alloc_free(few[0]);
	}
	ck_assert_uint_lt(nstayed, n / 2);
}
END_TEST

START_TEST(a_block_that_regrows_is_what_it_was)
{
	char *block = alloc_get(HAD);

	up_and_down(100);
	while (shrink(&block))
		block = alloc_resize(block, HAD);
	/* The block has shrunk by one step only. */
	block = alloc_resize(block, 2 * SMALL);
	ck_assert_uint_eq(alloc_usable(block, "test"), HAD);
	alloc_free(block);
}
END_TEST

START_TEST(the_smallest_shrinks_without_credit_are_moves)
{
	ck_assert(!shrink_stays(HAD, SMALL));
	ck_assert(!shrink_stays(128, 1));
	ck_assert(shrink_stays(128, 128));
	ck_assert_uint_eq(shrink_grows(&start, 17), 17);
	ck_assert_uint_eq(shrink_credit(), 0);
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
	    tc, a_program_that_changes_its_ways_has_lost_the_credit_at_most);
	tcase_add_test(tc, regrets_that_are_few_earn_nothing_for_long);
	tcase_add_test(tc, a_block_that_regrows_is_what_it_was);
	tcase_add_test(tc, the_smallest_shrinks_without_credit_are_moves);
	suite_add_tcase(s, tc);
	return s;
}
