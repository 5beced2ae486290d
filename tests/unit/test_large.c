/*
 * test_large.c - large blocks, allocated directly from the heap; each test is a
 * separate process
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/hooks.h"
#include "umem/base/page_map.h"
#include "umem/base/large.h"
#include "vmem/account.h"
#include "vmem/huge.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define UNIT HEAP_UNIT

static size_t
bytes_of(const void *p)
{
	return page_map_large_bytes(page_map_owner(p));
}

static bool
is_zero(const void *at, size_t bytes)
{
	const char *c = at;

	return c[0] == 0 && memcmp(c, c + 1, bytes - 1) == 0;
}

/* Write a word to each page that identifies its position. */
static void
stamp(char *p, size_t bytes, size_t what)
{
	for (size_t i = 0; i < bytes; i += 4096)
		*(size_t *)(void *)(p + i) = i + what;
}

static bool
is_stamped(const char *p, size_t bytes, size_t what)
{
	for (size_t i = 0; i < bytes; i += 4096)
		if (*(const size_t *)(const void *)(p + i) != i + what)
			return false;
	return true;
}

static char *
block(size_t size)
{
	bool zeroed;
	char *p = large_alloc(size, UNIT, &zeroed);

	ck_assert_ptr_nonnull(p);
	if (zeroed)
		ck_assert(is_zero(p, bytes_of(p)));
	return p;
}

/*
 * The thread that allocates the span next writes its own entry to the page
 * map.
 */
START_TEST(a_block_is_out_of_the_map_before_it_goes_back_to_the_heap)
{
	char *p = block(9 * MIB);

	hook_heap_freed = hook_take_again;
	large_free(p, bytes_of(p));
	ck_assert_ptr_eq(hook_taken, p);
	ck_assert_uint_eq(bytes_of(p), 9 * MIB);
	ck_assert_uint_eq(
	    page_map_class(page_map.entry[page_map_unit(p)]), PAGE_MAP_LARGE);
}
END_TEST

START_TEST(figures_follow_what_is_done)
{
	size_t used = account_get(&account.large), n = large_count();
	char *p = block(9 * MIB + 1), *q = block(1);

	ck_assert_uint_eq(bytes_of(p), 9 * MIB + UNIT);
	ck_assert_uint_eq(bytes_of(q), UNIT);
	ck_assert_uint_eq(
	    account_get(&account.large), used + 9 * MIB + 2 * UNIT);
	ck_assert_uint_eq(large_count(), n + 2);
	p = large_resize(p, bytes_of(p), 20 * MIB);
	ck_assert_uint_eq(bytes_of(p), 20 * MIB);
	ck_assert_uint_eq(account_get(&account.large), used + 20 * MIB + UNIT);
	p = large_resize(p, bytes_of(p), 9 * MIB);
	ck_assert_uint_eq(account_get(&account.large), used + 9 * MIB + UNIT);
	ck_assert_uint_eq(large_count(), n + 2);
	large_free(p, bytes_of(p));
	ck_assert_uint_eq(bytes_of(p), 0);
	large_free(q, UNIT);
	ck_assert_uint_eq(account_get(&account.large), used);
	ck_assert_uint_eq(large_count(), n);
}
END_TEST

/*
 * block() checks new spans.  This test checks spans that were used before, and
 * spans whose memory was returned to the kernel.
 */
START_TEST(what_is_said_to_be_zero_is_zero)
{
	char *p[20];
	unsigned nzeroed = 0;

	srand(3);
	for (int round = 0; round < 60; round++) {
		unsigned i = (unsigned)round % 20;
		size_t size = (1 + (size_t)rand() % 40) * UNIT - 100;
		bool zeroed = false;

		if (round >= 20)
			large_free(p[i], bytes_of(p[i]));
		if (round % 7 == 6)
			heap_purge(0, round % 2 ? 5 * UNIT : SIZE_MAX);
		p[i] = large_alloc(size, UNIT, &zeroed);
		ck_assert_ptr_nonnull(p[i]);
		if (zeroed) {
			nzeroed++;
			ck_assert(is_zero(p[i], bytes_of(p[i])));
		}
		memset(p[i], 0xee, bytes_of(p[i]));
	}
	ck_assert_uint_gt(nzeroed, 10);
}
END_TEST

START_TEST(any_alignment_is_kept)
{
	for (size_t align = 1; align <= 256 * MIB; align *= 2)
		for (size_t size = 1; size <= 5 * UNIT; size += UNIT / 2 + 7) {
			bool zeroed;
			char *p = large_alloc(size, align, &zeroed);

			ck_assert_ptr_nonnull(p);
			ck_assert_uint_eq((uintptr_t)p % align, 0);
			ck_assert_uint_eq((uintptr_t)p % UNIT, 0);
			ck_assert_uint_eq(bytes_of(p), align_up(size, UNIT));
			p[0] = p[size - 1] = 1;
			large_free(p, bytes_of(p));
		}
}
END_TEST

START_TEST(what_is_free_behind_a_block_is_taken)
{
	char *p = block(20 * MIB);
	char *q;

	stamp(p, 20 * MIB, 1);
	q = large_resize(p, 20 * MIB, 10 * MIB);
	ck_assert_ptr_eq(q, p);
	ck_assert_uint_eq(bytes_of(p), 10 * MIB);
	ck_assert(is_stamped(p, 10 * MIB, 1));
	/*
	 * The tail is free, so large_resize() extends the block into it again.
	 */
	q = large_resize(p, 10 * MIB, 15 * MIB);
	ck_assert_ptr_eq(q, p);
	ck_assert(is_stamped(p, 10 * MIB, 1));
	q = large_resize(p, 15 * MIB, 15 * MIB - UNIT + 1);
	ck_assert_ptr_eq(q, p);
	ck_assert_uint_eq(bytes_of(p), 15 * MIB);
}
END_TEST

START_TEST(a_block_with_a_neighbour_moves_and_leaves_nothing)
{
	char *p = block(20 * MIB), *q, *fence;
	bool zeroed;

	/*
	 * Cut off 4 MiB and allocate them, so that no free span follows the
	 * block.
	 */
	p = large_resize(p, 20 * MIB, 16 * MIB);
	fence = p + 16 * MIB;
	do
		q = large_alloc(4 * MIB, UNIT, &zeroed);
	while (q != NULL && q != fence && q < fence);
	stamp(p, 16 * MIB, 2);
	q = large_resize(p, 16 * MIB, 64 * MIB);
	ck_assert_ptr_nonnull(q);
	ck_assert(is_stamped(q, 16 * MIB, 2));
	memset(q + 16 * MIB, 1, 48 * MIB);
	if (q == p)
		return;
	ck_assert_uint_eq(bytes_of(p), 0);
	ck_assert_uint_eq(page_map.entry[page_map_unit(p)], 0);
	ck_assert_uint_eq(bytes_of(q), 64 * MIB);
}
END_TEST

/* The block grows twelve times, with other blocks in its way. */
START_TEST(a_growing_block_keeps_its_contents)
{
	size_t used = account_get(&account.large);
	char *p = block(UNIT), *other[12];
	size_t bytes = UNIT;

	stamp(p, bytes, 3);
	for (int i = 0; i < 12; i++) {
		size_t more = bytes + (bytes / 2 < UNIT ? UNIT : bytes / 2);

		other[i] = block(UNIT * (1 + (size_t)i % 3));
		p = large_resize(p, bytes, more);
		ck_assert_ptr_nonnull(p);
		more = bytes_of(p);
		ck_assert(is_stamped(p, bytes, 3));
		stamp(p, more, 3);
		bytes = more;
	}
	large_free(p, bytes);
	for (int i = 0; i < 12; i++)
		large_free(other[i], bytes_of(other[i]));
	ck_assert_uint_eq(account_get(&account.large), used);
}
END_TEST

START_TEST(a_refused_resize_leaves_the_block_whole)
{
	static const size_t to[] = {8 * MIB, 100 * MIB, 300 * MIB};
	char *fence;

	for (unsigned i = 0; i < array_size(to); i++) {
		char *p = block(16 * MIB), *q = NULL;

		fence = block(UNIT);
		stamp(p, 16 * MIB, 4);
		for (unsigned nth = 1; q == NULL; nth++) {
			size_t used = account_get(&account.large),
			       n = large_count();

			os_fail_nth(nth, _i == 0 ? 1 : 1u << 30);
			q = large_resize(p, 16 * MIB, to[i]);
			os_fail_nth(0, 0);
			ck_assert_uint_lt(nth, 500);
			if (q != NULL)
				break;
			ck_assert_uint_eq(account_get(&account.large), used);
			ck_assert_uint_eq(large_count(), n);
			ck_assert_uint_eq(bytes_of(p), 16 * MIB);
			ck_assert(is_stamped(p, 16 * MIB, 4));
		}
		ck_assert(
		    is_stamped(q, to[i] < 16 * MIB ? to[i] : 16 * MIB, 4));
		large_free(q, bytes_of(q));
		large_free(fence, UNIT);
		heap_purge(0, SIZE_MAX);
	}
}
END_TEST

START_TEST(each_address_of_a_block_leads_to_its_start)
{
	char *p = block(5 * UNIT), *next = block(2 * UNIT);

	for (size_t at = 0; at < 5 * UNIT; at += UNIT / 4)
		ck_assert_ptr_eq(large_containing(p + at), p);
	ck_assert_ptr_eq(large_containing(p + 5 * UNIT - 1), p);
	ck_assert_ptr_eq(large_containing(next + UNIT), next);
	/* Behind both blocks, whichever is the lower. */
	ck_assert_ptr_null(large_containing(p + 7 * UNIT));
	ck_assert_ptr_null(large_containing(next + 7 * UNIT));
	large_free(p, bytes_of(p));
	ck_assert_ptr_null(large_containing(p + UNIT));
	large_free(next, bytes_of(next));
	ck_assert_ptr_null(large_containing(&p));
	ck_assert_ptr_null(large_containing(NULL));
}
END_TEST

START_TEST(sizes_without_end_are_refused)
{
	char *p = block(UNIT);
	bool zeroed;

	stamp(p, UNIT, 5);
	ck_assert_ptr_null(large_alloc(SIZE_MAX, UNIT, &zeroed));
	ck_assert_ptr_null(large_alloc(SIZE_MAX - UNIT, UNIT, &zeroed));
	ck_assert_ptr_null(large_alloc((size_t)1 << 60, UNIT, &zeroed));
	ck_assert_ptr_null(large_alloc(UNIT, (size_t)1 << 63, &zeroed));
	ck_assert_ptr_null(large_resize(p, UNIT, SIZE_MAX));
	ck_assert_ptr_null(large_resize(p, UNIT, SIZE_MAX - 3 * UNIT));
	ck_assert_ptr_null(large_resize(p, UNIT, (size_t)1 << 60));
	ck_assert_uint_eq(bytes_of(p), UNIT);
	ck_assert(is_stamped(p, UNIT, 5));
}
END_TEST

/* Resident pages, pages without memory, and ends inside a page. */
START_TEST(a_copy_is_a_copy_however_it_is_made)
{
	static const size_t offset[] = {0, UNIT, 4096, 16, 4000};
	size_t size = 9 * MIB, room = 12 * MIB;
	char *from = block(room), *to;

	srand((unsigned)_i);
	for (unsigned i = 0; i < array_size(offset); i++) {
		size_t n = size - (size_t)rand() % 10000;
		bool zeroed;

		to = heap_alloc_same_offset(room, from, &zeroed);
		ck_assert_uint_eq(
		    (uintptr_t)to % HUGE_PAGE, (uintptr_t)from % HUGE_PAGE);
		heap_purge(0, SIZE_MAX);
		for (size_t j = 0; j < room; j++)
			from[j] = (char)(j * 31 + j / 4099);
		/* Some pieces of the target are resident. */
		for (size_t j = 0; j < room; j += 64 * KIB)
			if (rand() % 60 == 0)
				memset(to + j, 1, 64 * KIB);
		if (_i % 2 != 0)
			os_fail_nth(1 + (unsigned)rand() % 8, 3);
		large_copy(
		    to + offset[i], from + (_i % 4 < 2 ? offset[i] : 0), n);
		os_fail_nth(0, 0);
		for (size_t j = 0; j < n; j++) {
			size_t k = j + (_i % 4 < 2 ? offset[i] : 0);

			if (to[offset[i] + j] != (char)(k * 31 + k / 4099))
				ck_abort_msg("%zu of %zu", j, n);
		}
		heap_free(to, room);
	}
}
END_TEST

static size_t
pages_resident(char *at, size_t bytes)
{
	unsigned char pages[HUGE_PAGE / 4096];
	size_t n = 0;

	ck_assert_uint_le(bytes / os_page_size(), sizeof(pages));
	ck_assert(os_resident(at, bytes, pages));
	for (size_t i = 0; i < bytes / os_page_size(); i++)
		n += pages[i] & 1;
	return n;
}

/* Only whole huge pages are moved, and only to a target without memory. */
START_TEST(what_is_moved_is_whole_huge_pages)
{
	size_t page = os_page_size(), whole = HUGE_PAGE / page;
	char *p = block(16 * MIB), *q, *there;
	size_t head = -(uintptr_t)p % HUGE_PAGE;
	char *fence = NULL;
	bool zeroed;

	do
		fence = block(UNIT);
	while (fence < p + 16 * MIB);
	stamp(p, 16 * MIB, 6);
	heap_purge(0, SIZE_MAX);
	q = heap_alloc_same_offset(32 * MIB, p, &zeroed);
	ck_assert_ptr_nonnull(q);
	ck_assert_uint_eq((uintptr_t)q % HUGE_PAGE, (uintptr_t)p % HUGE_PAGE);
	ck_assert(zeroed);
	/* A page of the third huge page is resident. */
	there = q + head + 2 * HUGE_PAGE;
	there[5 * page] = 1;
	large_copy(q, p, 16 * MIB);
	ck_assert(is_stamped(q, 16 * MIB, 6));
	for (size_t i = 0; i < 6; i++)
		ck_assert_uint_eq(
		    pages_resident(p + head + i * HUGE_PAGE, HUGE_PAGE),
		    i == 2 ? whole : 0);
	if (head != 0)
		ck_assert_uint_eq(pages_resident(p, head), head / page);
	heap_free(q, 32 * MIB);
	large_free(p, 16 * MIB);
}
END_TEST

Suite *
large_suite(void)
{
	Suite *suite = suite_create("large");
	TCase *tc = tcase_create("large");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, figures_follow_what_is_done);
	tcase_add_test(
	    tc, a_block_is_out_of_the_map_before_it_goes_back_to_the_heap);
	tcase_add_test(tc, what_is_said_to_be_zero_is_zero);
	tcase_add_test(tc, any_alignment_is_kept);
	tcase_add_test(tc, what_is_free_behind_a_block_is_taken);
	tcase_add_test(tc, a_block_with_a_neighbour_moves_and_leaves_nothing);
	tcase_add_test(tc, a_growing_block_keeps_its_contents);
	tcase_add_test(tc, each_address_of_a_block_leads_to_its_start);
	tcase_add_test(tc, sizes_without_end_are_refused);
	tcase_add_loop_test(tc, a_copy_is_a_copy_however_it_is_made, 0, 8);
	tcase_add_loop_test(tc, a_refused_resize_leaves_the_block_whole, 0, 2);
	tcase_add_test(tc, what_is_moved_is_whole_huge_pages);
	suite_add_tcase(suite, tc);
	return suite;
}
