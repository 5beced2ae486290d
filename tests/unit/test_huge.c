/* test_huge.c - huge pages where memory is filled, and soon none elsewhere */
#include <check.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/child.h"
#include "vmem/huge.h"
#include "vmem/os.h"

#define PIECE (1 * MIB)
#define MANY  16 /* pieces; more than are recorded */

/*
 * Imitates growth of the heap by npieces pieces of small pages.  Touches every
 * nth page, or none if nth is 0.
 */
static void
grow(unsigned npieces, size_t nth)
{
	size_t page = os_page_size();
	char *at = os_map(npieces * PIECE);

	ck_assert_ptr_nonnull(at);
	os_huge(at, npieces * PIECE, false);
	for (size_t i = 0; i < npieces * PIECE / page; i++)
		if (nth != 0 && i % nth == 0)
			at[i * page] = 1;
	for (unsigned i = 0; i < npieces; i++, at += PIECE)
		huge_growth_record((uintptr_t)at, (uintptr_t)at + PIECE, false);
}

/* In a heap of 64 MiB. */
static bool
wanted(void)
{
	return huge_growth_max(64 * MIB) != 0;
}

/* Returns the longest next run of huge pages, in bytes, after a small piece. */
static size_t
run_in(size_t heap)
{
	bool small;

	if (huge_growth_max(heap) == 0)
		return 0;
	return huge_growth_next(&small);
}

START_TEST(nothing_is_known_of_a_heap_that_has_not_grown)
{
	ck_assert(!wanted());
}
END_TEST

START_TEST(a_dense_heap_wants_huge_pages)
{
	grow(MANY, 1);
	ck_assert(wanted());
	ck_assert_uint_ne(huge_growth_max(16 * MIB), 0);
	ck_assert_uint_eq(huge_growth_max(16 * MIB - 1), 0);
}
END_TEST

START_TEST(a_sparse_heap_wants_none)
{
	/* Half, a third, a fourth and so on of all pages is touched. */
	grow(MANY, (size_t)_i);
	for (int i = 0; i < 20; i++)
		ck_assert(!wanted());
}
END_TEST

START_TEST(a_run_is_half_of_the_heap_in_whole_huge_pages)
{
	grow(MANY, 1);
	for (size_t heap = 16 * MIB; heap < 500 * MIB; heap += MIB + 64 * KIB)
		ck_assert_uint_eq(
		    run_in(heap), align_down(heap / 2, HUGE_PAGE));
}
END_TEST

/* The latest piece is being handed out, and the program will fill it. */
START_TEST(the_very_latest_piece_does_not_count_yet)
{
	grow(MANY, 0);
	grow(2, 1);
	/* One of the three pieces that count is touched. */
	ck_assert(!wanted());
	/* Two of them are. */
	grow(1, 0);
	ck_assert(wanted());
	/* Two of four are: a huge page has followed the latest piece. */
	huge_growth_record(0, HUGE_PAGE, true);
	ck_assert(!wanted());
}
END_TEST

START_TEST(a_single_piece_is_better_than_none)
{
	grow(1, 1);
	ck_assert(wanted());
	grow(3, 0);
	ck_assert(!wanted());
}
END_TEST

START_TEST(what_counts_is_what_came_last)
{
	grow(MANY, 1);
	grow(MANY, 0);
	ck_assert(!wanted());
	grow(MANY, 1);
	ck_assert(wanted());
}
END_TEST

START_TEST(a_step_gets_half_the_heap_at_most)
{
	grow(MANY, 1);
	ck_assert_uint_eq(huge_growth_max(64 * MIB), 32 * MIB);
}
END_TEST

START_TEST(the_option_forbids_them)
{
	grow(MANY, 1);
	huge_use = HUGE_NO;
	ck_assert(!wanted());
	huge_use = HUGE_AUTO;
	ck_assert(wanted());
}
END_TEST

/* All growth, even the first and that of a heap that is not touched. */
START_TEST(the_option_demands_them)
{
	bool small;

	huge_use = HUGE_ALWAYS;
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(huge_growth_max(0), SIZE_MAX);
		ck_assert_uint_eq(huge_growth_max(64 * MIB), SIZE_MAX);
		ck_assert_uint_ge(huge_growth_next(&small), 64 * GIB);
		ck_assert(!small);
		grow(MANY, 0);
		huge_growth_record(HUGE_PAGE, HUGE_PAGE + 64 * GIB, true);
	}
	huge_use = HUGE_AUTO;
	ck_assert(!wanted());
}
END_TEST

/* Returns the small pieces while a heap grows by bytes. */
static int
small_pieces_in(size_t heap, size_t bytes)
{
	size_t all = 0;
	int nsmall = 0;

	grow(MANY, 1);
	while (all < bytes) {
		bool small;
		size_t most;

		ck_assert_uint_ne(huge_growth_max(heap + all), 0);
		most = huge_growth_next(&small);
		ck_assert_uint_gt(most, 0);
		ck_assert(!small || most == HUGE_PAGE);
		/* The part of a small piece there is touched. */
		if (small)
			grow(HUGE_PAGE / PIECE, 1);
		else
			huge_growth_record(0, most, true);
		nsmall += small;
		all += most;
	}
	return nsmall;
}

START_TEST(one_piece_in_some_is_small)
{
	/* While the heap doubles twice. */
	ck_assert_int_eq(small_pieces_in(32 * MIB, 96 * MIB), 2);
	ck_assert_int_eq(small_pieces_in(1024 * MIB, 3072ul * MIB), 2);
}
END_TEST

/* Memory is dense at first.  Later growth is not touched. */
START_TEST(sparse_use_of_huge_pages_is_found_out)
{
	size_t heap = 64 * MIB, wasted = 0;
	size_t page = os_page_size();

	grow(MANY, 1);
	while (wanted()) {
		bool small;
		size_t most = huge_growth_next(&small);
		char *at;

		/* The heap grows by at most an eighth of its size. */
		if (most > heap / 8)
			most = align_down(heap / 8, HUGE_PAGE);
		at = os_map(most);

		ck_assert_ptr_nonnull(at);
		os_huge(at, most, !small);
		/*
		 * A huge page is present as a whole, even if it is not touched.
		 */
		for (size_t i = 0; !small && i < most; i += page)
			at[i] = 1;
		huge_growth_record((uintptr_t)at, (uintptr_t)at + most, !small);
		heap += most;
		wasted += small ? 0 : most;
		ck_assert_uint_lt(wasted, heap);
	}
	ck_assert_uint_le(wasted, heap * 3 / 4);
}
END_TEST

Suite *
huge_suite(void)
{
	Suite *suite = suite_create("huge");
	TCase *tcase = tcase_create("huge");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, nothing_is_known_of_a_heap_that_has_not_grown);
	tcase_add_test(tcase, a_dense_heap_wants_huge_pages);
	tcase_add_loop_test(tcase, a_sparse_heap_wants_none, 2, 7);
	tcase_add_test(tcase, a_run_is_half_of_the_heap_in_whole_huge_pages);
	tcase_add_test(tcase, the_very_latest_piece_does_not_count_yet);
	tcase_add_test(tcase, a_single_piece_is_better_than_none);
	tcase_add_test(tcase, what_counts_is_what_came_last);
	tcase_add_test(tcase, a_step_gets_half_the_heap_at_most);
	tcase_add_test(tcase, the_option_forbids_them);
	tcase_add_test(tcase, the_option_demands_them);
	tcase_add_test(tcase, one_piece_in_some_is_small);
	tcase_add_test(tcase, sparse_use_of_huge_pages_is_found_out);
	suite_add_tcase(suite, tcase);
	return suite;
}
