/* test_seghash.c - the hash from an allocated address to its segment */
#include <check.h>
#include <stdlib.h>

#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/seghash.h"

#define NSEGS 100000

static struct segment segs[NSEGS];
static struct seghash hash;

static void
fill(size_t n, uintptr_t first, size_t stride)
{
	for (size_t i = 0; i < n; i++) {
		segs[i].start = first + i * stride;
		segs[i].type = VMEM_ALLOC;
		seghash_insert(&hash, &segs[i]);
	}
}

static size_t
longest_chain(void)
{
	size_t longest = 0;

	for (size_t i = 0; i < hash.nbuckets; i++) {
		unsigned top = i == 0 ? 0 : highbit(i);
		struct segment *seg = i < SEGHASH_BASE
					  ? hash.base[i]
					  : hash.arrays[top - SEGHASH_BASE_BITS]
						       [i - ((size_t)1 << top)];
		size_t n = 0;

		for (; seg != NULL; seg = seg->chain)
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

/* Strides of typical programs: neighbours, and distant powers of two. */
static const size_t strides[] = {1, 2, 3, 8, 64, 100, 4096, 65536, 1 << 20,
    (size_t)1 << 30, (size_t)1 << 40};

START_TEST(segments_are_found_and_chains_stay_short)
{
	seghash_init(&hash, 1);
	fill(NSEGS, 4096, strides[_i]);
	ck_assert(seghash_check(&hash));
	ck_assert_uint_ge(hash.nbuckets, NSEGS);
	ck_assert_uint_le(longest_chain(), 16);
	for (size_t i = 0; i < NSEGS; i++)
		ck_assert_ptr_eq(seghash_find(&hash, segs[i].start), &segs[i]);
	ck_assert_ptr_null(seghash_find(&hash, 4095));
	seghash_destroy(&hash);
}
END_TEST

START_TEST(the_table_shrinks_when_segments_go)
{
	size_t used = meta_used();

	seghash_init(&hash, 1);
	fill(NSEGS, 1, 1);
	for (size_t i = 0; i < NSEGS; i++) {
		ck_assert_ptr_eq(
		    seghash_remove(&hash, segs[i].start), &segs[i]);
		ck_assert_ptr_null(seghash_remove(&hash, segs[i].start));
		if (i % 7777 == 0)
			ck_assert(seghash_check(&hash));
	}
	ck_assert_uint_eq(hash.nsegs, 0);
	ck_assert_uint_le(hash.nbuckets, 2 * SEGHASH_BASE);
	ck_assert(seghash_check(&hash));
	seghash_destroy(&hash);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(a_table_that_cannot_grow_still_works)
{
	seghash_init(&hash, 1);
	fill(1000, 1, 1);
	os_fail_nth(1, 1u << 30);
	/* Use up the free memory of meta. */
	while (meta_alloc(4096) != NULL)
		;
	for (size_t i = 1000; i < 20000; i++) {
		segs[i].start = 1 + i;
		segs[i].type = VMEM_ALLOC;
		seghash_insert(&hash, &segs[i]);
	}
	ck_assert(seghash_check(&hash));
	ck_assert_uint_lt(hash.nbuckets, 5000);
	for (size_t i = 0; i < 20000; i++)
		ck_assert_ptr_eq(seghash_find(&hash, segs[i].start), &segs[i]);
	os_fail_nth(0, 0);

	/* The table grows at later inserts, also if segments are replaced. */
	for (int i = 0; i < 40000; i++) {
		seghash_remove(&hash, segs[i % 20000].start);
		seghash_insert(&hash, &segs[i % 20000]);
	}
	ck_assert_uint_ge(hash.nbuckets, 20000);
	ck_assert(seghash_check(&hash));
	seghash_destroy(&hash);
}
END_TEST

START_TEST(inserts_and_removes_in_turn_at_a_doubling_map_nothing)
{
	seghash_init(&hash, 1);
	for (size_t n = 16; n <= 4096; n *= 2) {
		fill(n + 1, 1, 1);

		unsigned nrequests = os_requests();

		for (int i = 0; i < 1000; i++) {
			ck_assert_ptr_nonnull(
			    seghash_remove(&hash, segs[n].start));
			seghash_insert(&hash, &segs[n]);
		}
		ck_assert_uint_eq(os_requests(), nrequests);
		for (size_t i = 0; i <= n; i++)
			seghash_remove(&hash, segs[i].start);
	}
	seghash_destroy(&hash);
}
END_TEST

Suite *
seghash_suite(void)
{
	Suite *suite = suite_create("seghash");
	TCase *tc = tcase_create("seghash");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, segments_are_found_and_chains_stay_short, 0,
	    array_size(strides));
	tcase_add_test(tc, the_table_shrinks_when_segments_go);
	tcase_add_test(tc, a_table_that_cannot_grow_still_works);
	tcase_add_test(
	    tc, inserts_and_removes_in_turn_at_a_doubling_map_nothing);
	suite_add_tcase(suite, tc);
	return suite;
}
