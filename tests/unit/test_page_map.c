/* test_page_map.c - chunk starts, by brute force, and foreign addresses */
#include <check.h>
#include <stdlib.h>

#include "umem/base/page_map.h"
#include "umem/slab/slab_layout.h"
#include "vmem/os.h"

#define UNIT HEAP_UNIT

/* The only default size class that has no divisor. */
#define UNDIVIDED (56 * KIB)

static uint64_t slab_a, slab_b; /* addresses to look up */

static uint64_t
entry(const void *p)
{
	return page_map.entry[page_map_unit(p)];
}

/* The check that free(p) makes. */
static bool
is_start(const char *p)
{
	uint64_t e = entry(p);

	return page_map_class(e) != 0 && page_map_is_start(p, e);
}

static char *
span(size_t bytes)
{
	bool zeroed;
	char *at = heap_alloc(bytes, UNIT, &zeroed);

	ck_assert_ptr_nonnull(at);
	ck_assert(page_map_commit(at, bytes));
	return at;
}

static void
check_at(const char *at, size_t offset, size_t chunk, size_t first)
{
	bool expected = offset >= first && (offset - first) % chunk == 0;

	/* Without a divisor every offset passes, and the slab decides. */
	if (chunk == UNDIVIDED)
		expected = true;
	if (is_start(at + offset) != expected)
		ck_abort_msg("chunk %zu first %zu: %zu is %sa start", chunk,
		    first, offset, expected ? "not " : "");
}

/* Checks the addresses around each chunk. */
static void
check_chunks(const char *at, const struct slab_layout *l, size_t first)
{
	static const int near[] = {-64, -16, -8, -1, 0, 1, 8, 16, 63, 64};

	for (size_t i = 0; i < l->nchunks; i++)
		for (unsigned j = 0; j < array_size(near); j++) {
			size_t offset = first + i * l->chunk + (size_t)near[j];

			if (offset < l->slab_bytes)
				check_at(at, offset, l->chunk, first);
		}
	for (size_t offset = 0; offset < first; offset += 8)
		check_at(at, offset, l->chunk, first);
}

START_TEST(a_chunk_starts_where_the_slab_says_and_nowhere_else)
{
	unsigned c = (unsigned)_i;
	struct slab_layout l;
	size_t step;
	char *at;

	if (c > size_classes.n)
		return;
	ck_assert(slab_layout(&l, size_classes.bytes[c], 16, UNIT));
	step = l.slab_bytes <= 256 * KIB ? 1 : 8;
	at = span(l.slab_bytes);
	for (size_t first = 0;;) {
		page_map_enter_slab(
		    at, l.slab_bytes, c, l.chunk, first, &slab_a);
		check_chunks(at, &l, first);
		if (first == 0 || first == l.colour_max)
			for (size_t i = 0; i < l.slab_bytes; i += step)
				check_at(at, i, l.chunk, first);
		for (size_t i = 0; i < l.slab_bytes; i += UNIT / 2)
			ck_assert_ptr_eq(page_map_owner(at + i), &slab_a);
		page_map_clear(at, l.slab_bytes);
		first = slab_layout_next_colour(&l, first);
		if (first == 0)
			break;
	}
	for (size_t i = 0; i < l.slab_bytes; i += UNIT / 4) {
		ck_assert(!is_start(at + i));
		ck_assert_ptr_null(page_map_owner(at + i));
	}
	heap_free(at, l.slab_bytes);
}
END_TEST

START_TEST(one_class_leaves_the_question_to_the_slab)
{
	for (unsigned c = 1; c <= size_classes.n; c++)
		ck_assert_msg((page_map.divisor[c].magic != 0) ==
				  (size_classes.bytes[c] != UNDIVIDED),
		    "class of %zu", size_classes.bytes[c]);
	ck_assert_uint_ne(page_map.divisor[PAGE_MAP_LARGE].magic, 0);
}
END_TEST

/* x is an offset in a unit plus a phase less than the chunk size. */
static void
check_divisor(struct cpu_guard d, uint32_t chunk)
{
	uint32_t next = 0;

	/* Without a divisor every x passes, and the slab decides. */
	if (d.magic == 0) {
		ck_assert_uint_eq(d.bound, UINT32_MAX);
		return;
	}
	for (uint32_t x = 0; x < UNIT + chunk; x++) {
		bool multiple = x == next;

		if (multiple)
			next += chunk;
		if ((x * d.magic < d.bound) != multiple)
			ck_abort_msg("%u of %u", x, chunk);
	}
}

/* Any multiple of 16, as chunks have with debugging, too. */
START_TEST(any_class_divides_exactly_or_not_at_all)
{
	const unsigned most = SIZE_CLASSES - 1;
	size_t chunk = 8 + 16 * (size_t)_i;
	unsigned nleft = 0, nall = 0;

	if (chunk == 8)
		chunk = 16;
	chunk = align_down(chunk, 16);
	while (chunk < UNIT) {
		size_classes.n = 0;
		while (size_classes.n < most && chunk < UNIT) {
			size_classes.bytes[++size_classes.n] = chunk;
			chunk += 16 * 7;
		}
		ck_assert(page_map_start());
		for (unsigned c = 1; c <= size_classes.n; c++) {
			check_divisor(page_map.divisor[c],
			    (uint32_t)size_classes.bytes[c]);
			nleft += page_map.divisor[c].magic == 0;
			nall++;
		}
	}
	ck_assert_uint_gt(nall, 500);
	ck_assert_uint_lt(nleft, nall / 8);
}
END_TEST

START_TEST(foreign_addresses_have_no_owner)
{
	uintptr_t base = page_map.base;
	uintptr_t end = base + page_map.units * UNIT;
	const void *at[] = {NULL, &slab_a, &base, (void *)-(uintptr_t)1,
	    (void *)(base - 1), (void *)(base - UNIT), (void *)end,
	    (void *)(end + UNIT), (void *)(base ^ (uintptr_t)1 << 63),
	    (void *)8};

	ck_assert_uint_eq(base % UNIT, 0);
	ck_assert_uint_gt(page_map.units, 0);
	for (unsigned i = 0; i < array_size(at); i++) {
		ck_assert_uint_ge(page_map_unit(at[i]), page_map.units);
		ck_assert_ptr_null(page_map_owner(at[i]));
	}
	/*
	 * The last unit is in the tables, although nothing is registered there.
	 */
	ck_assert_uint_lt(page_map_unit((void *)(end - 1)), page_map.units);
	ck_assert_ptr_null(page_map_owner((void *)(end - 1)));
	ck_assert(!is_start((void *)(end - 1)));
}
END_TEST

START_TEST(a_large_block_is_known_by_its_first_unit)
{
	char *at = span(3 * UNIT);

	page_map_enter_large(at, 3 * UNIT);
	ck_assert_uint_eq(page_map_large_bytes(page_map_owner(at)), 3 * UNIT);
	ck_assert_uint_eq(page_map_class(entry(at)), PAGE_MAP_LARGE);
	ck_assert(is_start(at));
	for (size_t i = 1; i < 3 * UNIT; i++)
		ck_assert(!is_start(at + i));
	ck_assert_ptr_null(page_map_owner(at + UNIT));
	page_map_clear(at, UNIT);
	ck_assert(!is_start(at));
	ck_assert_ptr_null(page_map_owner(at));
	ck_assert_uint_eq(page_map_large_bytes(NULL), 0);
	ck_assert_uint_eq(page_map_large_bytes(&slab_a), 0);
	heap_free(at, 3 * UNIT);
}
END_TEST

START_TEST(neighbours_do_not_touch_each_other)
{
	unsigned small = size_class_of(48), big = size_class_of(200 * KIB);
	size_t chunk = size_classes.bytes[big];
	char *at = span(8 * UNIT);

	page_map_enter_slab(at, 2 * UNIT, small, 48, 64, &slab_a);
	page_map_enter_slab(at + 2 * UNIT, 4 * UNIT, big, chunk, 0, &slab_b);
	page_map_enter_large(at + 6 * UNIT, 2 * UNIT);
	ck_assert_ptr_eq(page_map_owner(at + 2 * UNIT - 1), &slab_a);
	ck_assert_ptr_eq(page_map_owner(at + 2 * UNIT), &slab_b);
	ck_assert_ptr_eq(page_map_owner(at + 6 * UNIT - 1), &slab_b);
	ck_assert(is_start(at + 2 * UNIT));
	/* A unit in which no chunk starts looks like a foreign unit. */
	ck_assert_uint_eq(entry(at + 3 * UNIT), 0);
	page_map_clear(at + 2 * UNIT, 4 * UNIT);
	ck_assert_ptr_eq(page_map_owner(at + 2 * UNIT - 1), &slab_a);
	ck_assert(is_start(at + 64));
	ck_assert(is_start(at + 6 * UNIT));
	page_map_enter_slab(at + 2 * UNIT, 4 * UNIT, small, 48, 0, &slab_b);
	ck_assert(is_start(at + 64));
	ck_assert(!is_start(at));
	ck_assert(is_start(at + 2 * UNIT));
	ck_assert(!is_start(at + 3 * UNIT));
	ck_assert(is_start(at + 2 * UNIT + align_up(UNIT, 48) / 48 * 48));
}
END_TEST

START_TEST(objects_of_a_cache_have_an_owner_but_no_class)
{
	char *at = span(UNIT);

	page_map_enter_slab(at, UNIT, 0, 64, 0, &slab_a);
	ck_assert_ptr_eq(page_map_owner(at + 100), &slab_a);
	for (size_t i = 0; i < UNIT; i++)
		ck_assert(!is_start(at + i));
}
END_TEST

/* 4096 units share a part of the tables.  This range needs four requests. */
START_TEST(tables_are_covered_or_it_is_said)
{
	size_t unit = page_map.units - 4096 - 4;
	char *at;
	unsigned nth = 1;

	ck_assert_uint_gt(page_map.units, 3 * 4096);
	unit = align_down(unit, 4096) - 4;
	at = (char *)page_map.base + unit * UNIT;
	for (;; nth++) {
		bool done;

		os_fail_nth(nth, 1);
		done = page_map_commit(at, 8 * UNIT);
		os_fail_nth(0, 0);
		if (done)
			break;
		ck_assert_ptr_null(page_map_owner(at));
	}
	ck_assert_uint_ge(nth, 3);
	page_map_enter_slab(at, 8 * UNIT, 1, 8, 0, &slab_b);
	ck_assert(is_start(at + 7 * UNIT + 8));
	page_map_clear(at, 8 * UNIT);
}
END_TEST

Suite *
page_map_suite(void)
{
	Suite *suite = suite_create("page_map");
	TCase *tc = tcase_create("page_map");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(
	    tc, a_chunk_starts_where_the_slab_says_and_nowhere_else, 1, 90);
	tcase_add_test(tc, one_class_leaves_the_question_to_the_slab);
	tcase_add_loop_test(tc, any_class_divides_exactly_or_not_at_all, 0, 7);
	tcase_add_test(tc, foreign_addresses_have_no_owner);
	tcase_add_test(tc, a_large_block_is_known_by_its_first_unit);
	tcase_add_test(tc, neighbours_do_not_touch_each_other);
	tcase_add_test(tc, objects_of_a_cache_have_an_owner_but_no_class);
	tcase_add_test(tc, tables_are_covered_or_it_is_said);
	suite_add_tcase(suite, tc);
	return suite;
}
