/* test_freelist.c - power-of-two lists of free segments */
#include <check.h>
#include <stdlib.h>

#include "vmem/freelist.h"

static struct freelist fl;
static struct segment segs[200];

static void
setup(void)
{
	freelist_init(&fl);
}

static struct segment *
add(unsigned i, uintptr_t start, size_t size)
{
	segs[i] =
	    (struct segment){.start = start, .size = size, .type = VMEM_FREE};
	freelist_insert(&fl, &segs[i]);
	ck_assert(freelist_check(&fl));
	return &segs[i];
}

static struct segment *
instant(size_t size)
{
	struct request req = request_plain(size, 1);
	uintptr_t addr = 0;
	struct segment *seg = freelist_instant(&fl, &req, &addr);

	ck_assert(seg == NULL || addr == seg->start);
	return seg;
}

START_TEST(instant_fit_gives_back_the_size_that_was_freed_last)
{
	add(0, 1000, 1 << 20);
	struct segment *older = add(1, 100, 6);
	struct segment *newer = add(2, 200, 6);

	ck_assert_ptr_eq(instant(6), newer);
	freelist_remove(&fl, newer);
	ck_assert_ptr_eq(instant(6), older);
	freelist_remove(&fl, older);
	ck_assert_ptr_eq(instant(6), &segs[0]);
}
END_TEST

START_TEST(instant_fit_takes_the_next_list_that_holds_any)
{
	add(0, 100, 5);
	add(1, 200, 64);
	add(2, 300, 4096);
	ck_assert_ptr_eq(instant(7), &segs[1]);
	ck_assert_ptr_eq(instant(65), &segs[2]);
	ck_assert_ptr_null(instant(4097));
}
END_TEST

START_TEST(instant_fit_looks_at_a_few_of_its_own_list_only)
{
	add(0, 100, 7);
	for (unsigned i = 1; i < 20; i++)
		add(i, 100 + i * 10, 4);
	/* The fitting segment is behind 19 that do not fit.  any() finds it. */
	ck_assert_ptr_null(instant(7));

	struct request req = request_plain(7, 1);
	uintptr_t addr;

	ck_assert_ptr_eq(
	    freelist_search(&fl, CHOOSE_ANY, &req, &addr), &segs[0]);
	ck_assert_uint_eq(addr, 100);
}
END_TEST

START_TEST(a_search_in_vain_makes_the_bound_of_a_list_exact)
{
	add(0, 100, 7);
	add(1, 200, 5);
	ck_assert_uint_eq(fl.largest[2], 7);
	freelist_remove(&fl, &segs[0]);
	ck_assert_uint_eq(fl.largest[2], 7);

	struct request req = request_plain(6, 1);
	uintptr_t addr;

	ck_assert_ptr_null(freelist_search(&fl, CHOOSE_ANY, &req, &addr));
	ck_assert_uint_eq(fl.largest[2], 5);
	freelist_remove(&fl, &segs[1]);
	ck_assert_uint_eq(fl.largest[2], 0);
	ck_assert(freelist_check(&fl));
}
END_TEST

START_TEST(best_fit_takes_the_smallest_that_fits)
{
	static const size_t sizes[] = {100, 9, 70, 12, 8, 11, 300};
	struct request req = request_plain(10, 1);
	uintptr_t addr;

	for (unsigned i = 0; i < array_size(sizes); i++)
		add(i, 1000 * (i + 1), sizes[i]);
	ck_assert_ptr_eq(
	    freelist_search(&fl, CHOOSE_SMALLEST, &req, &addr), &segs[5]);
	req = request_plain(13, 1);
	ck_assert_ptr_eq(
	    freelist_search(&fl, CHOOSE_SMALLEST, &req, &addr), &segs[2]);
	req = request_plain(301, 1);
	ck_assert_ptr_null(freelist_search(&fl, CHOOSE_SMALLEST, &req, &addr));
}
END_TEST

START_TEST(the_lowest_is_found_whatever_its_list)
{
	struct request req = request_plain(10, 1);
	uintptr_t addr;

	add(0, 500, 10);
	add(1, 100, 9);
	add(2, 300, 4000);
	add(3, 400, 12);
	ck_assert_ptr_eq(
	    freelist_search(&fl, CHOOSE_LOWEST, &req, &addr), &segs[2]);
	ck_assert_uint_eq(addr, 300);
}
END_TEST

START_TEST(a_segment_that_is_cut_changes_its_list_when_it_must)
{
	struct segment *seg = add(0, 100, 15);

	add(1, 200, 12);
	seg->size = 9;
	freelist_shrunk(&fl, seg, 15);
	ck_assert(freelist_check(&fl));
	ck_assert_ptr_eq(instant(8), &segs[1]);
	seg->size = 3;
	freelist_shrunk(&fl, seg, 9);
	ck_assert(freelist_check(&fl));
	ck_assert_ptr_eq(instant(3), seg);
}
END_TEST

START_TEST(a_segment_that_has_grown_is_the_newest)
{
	struct segment *seg = add(0, 100, 9);

	add(1, 200, 9);
	ck_assert_ptr_eq(instant(9), &segs[1]);
	seg->size = 10;
	freelist_grown(&fl, seg, 9);
	ck_assert_ptr_eq(instant(9), seg);
	ck_assert_ptr_eq(instant(10), seg);
	seg->size = 15;
	freelist_grown(&fl, seg, 10);
	ck_assert_ptr_eq(instant(15), seg);
	seg->size = 1000;
	freelist_grown(&fl, seg, 15);
	ck_assert_ptr_eq(instant(16), seg);
	ck_assert(freelist_check(&fl));
}
END_TEST

START_TEST(every_size_has_a_list)
{
	unsigned bit = (unsigned)_i;
	size_t size = (size_t)1 << bit;

	add(0, 1, size);
	ck_assert_ptr_eq(instant(size), &segs[0]);
	ck_assert_ptr_eq(instant(1), &segs[0]);
	if (bit < 63)
		ck_assert_ptr_null(instant(size + 1));
	freelist_remove(&fl, &segs[0]);
	add(0, 1, size + (size - 1));
	ck_assert_ptr_eq(instant(size + (size - 1)), &segs[0]);
}
END_TEST

Suite *
freelist_suite(void)
{
	Suite *suite = suite_create("freelist");
	TCase *tc = tcase_create("freelist");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, instant_fit_gives_back_the_size_that_was_freed_last);
	tcase_add_test(tc, instant_fit_takes_the_next_list_that_holds_any);
	tcase_add_test(tc, instant_fit_looks_at_a_few_of_its_own_list_only);
	tcase_add_test(tc, a_search_in_vain_makes_the_bound_of_a_list_exact);
	tcase_add_test(tc, best_fit_takes_the_smallest_that_fits);
	tcase_add_test(tc, the_lowest_is_found_whatever_its_list);
	tcase_add_test(tc, a_segment_that_is_cut_changes_its_list_when_it_must);
	tcase_add_test(tc, a_segment_that_has_grown_is_the_newest);
	tcase_add_loop_test(tc, every_size_has_a_list, 0, 64);
	suite_add_tcase(suite, tc);
	return suite;
}
