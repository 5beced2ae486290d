/*
 * test_alloc.c - the engine under malloc(), and sized memory
 *
 * Each test is a process of its own.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/stay.h"
#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"
#include "umem/cache/cache.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/stats/stats.h"
#include "umem/umem.h"
#include "umem/upkeep/update.h"
#include "vmem/account.h"
#include "vmem/os.h"

#define MOST 2000

static const size_t sizes[] = {1, 7, 8, 9, 16, 24, 48, 63, 64, 65, 100, 128,
    192, 200, 256, 320, 1000, 1024, 1088, 2048, 2049, 4000, 4096, 8192, 12288,
    20480, 32768, 32769, 40000, 57344, 65536, 65537, 100000, 131072, 1000000,
    SIZE_CLASS_MAX - 1, SIZE_CLASS_MAX, SIZE_CLASS_MAX + 1, 10000000};

/* Every byte of the first 4096, then at least one in each cache line. */
static size_t
step(size_t i)
{
	return i < 4096 ? 1 : 61;
}

static void
fill(void *p, size_t n, unsigned seed)
{
	unsigned char *c = p;

	for (size_t i = 0; i < n; i += step(i))
		c[i] = (unsigned char)(seed + i * 7 + i / 251);
}

static bool
is_filled(const void *p, size_t n, unsigned seed)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i += step(i))
		if (c[i] != (unsigned char)(seed + i * 7 + i / 251))
			return false;
	return true;
}

static bool
is_zero(const void *at, size_t bytes)
{
	const char *c = at;

	return c[0] == 0 && memcmp(c, c + 1, bytes - 1) == 0;
}

/* Hides the value n from the compiler. */
static size_t
opaque(size_t n)
{
	volatile size_t same = n;

	return same;
}

static size_t
live(void)
{
	struct umem_stats stats;

	stats_read(&stats);
	return stats.live_bytes;
}

START_TEST(blocks_are_aligned_by_their_size)
{
	for (unsigned i = 0; i < array_size(sizes); i++) {
		void *p[8];

		for (int j = 0; j < 8; j++) {
			uintptr_t at;

			p[j] = umem_alloc(sizes[i], UMEM_DEFAULT);
			at = (uintptr_t)p[j];
			ck_assert_ptr_nonnull(p[j]);
			ck_assert_uint_eq(at % 8, 0);
			if (sizes[i] >= 16)
				ck_assert_uint_eq(at % 16, 0);
			if (sizes[i] % 64 == 0)
				ck_assert_uint_eq(at % 64, 0);
			if (sizes[i] % os_page_size() == 0)
				ck_assert_uint_eq(at % os_page_size(), 0);
			ck_assert_uint_ge(alloc_usable(p[j], "test"), sizes[i]);
			fill(p[j], sizes[i], (unsigned)j);
		}
		for (int j = 0; j < 8; j++) {
			ck_assert(is_filled(p[j], sizes[i], (unsigned)j));
			umem_free(p[j], sizes[i]);
		}
	}
}
END_TEST

START_TEST(every_alignment_of_every_size)
{
	size_t before = live();

	for (size_t align = 1; align <= 16 * MIB; align *= 2)
		for (unsigned i = 0; i < array_size(sizes); i++) {
			char *p =
			    umem_alloc_align(sizes[i], align, UMEM_DEFAULT);
			char *q =
			    umem_alloc_aligned(sizes[i], align, UMEM_DEFAULT);

			ck_assert_ptr_nonnull(p);
			ck_assert_ptr_nonnull(q);
			ck_assert_uint_eq(
			    (uintptr_t)p % (align < 8 ? 8 : align), 0);
			ck_assert_uint_eq((uintptr_t)q % align, 0);
			p[0] = q[0] = 1;
			p[sizes[i] - 1] = q[sizes[i] - 1] = 2;
			ck_assert(p + sizes[i] <= q || q + sizes[i] <= p);
			umem_free_aligned(p, sizes[i]);
			umem_free_align(q, sizes[i]);
		}
	ck_assert_uint_eq(live(), before);
}
END_TEST

START_TEST(nothing_is_no_memory_and_no_failure)
{
	errno = 77;
	ck_assert_ptr_null(umem_alloc(0, UMEM_DEFAULT));
	ck_assert_ptr_null(umem_alloc(0, UMEM_NOFAIL));
	ck_assert_ptr_null(umem_zalloc(0, UMEM_NOFAIL));
	ck_assert_ptr_null(umem_alloc_align(0, 64, UMEM_NOFAIL));
	umem_free(NULL, 0);
	umem_free_align(NULL, 0);
	umem_free_aligned(NULL, 0);
	ck_assert_int_eq(errno, 77);
}
END_TEST

/* umem.h allows NULL with any size; the call then does nothing. */
static void
free_null(void)
{
	umem_free(NULL, 16);
	umem_free(NULL, SIZE_MAX);
	umem_free_align(NULL, 16);
	umem_free_aligned(NULL, 4096);
}

START_TEST(null_may_be_freed)
{
	ck_assert_str_eq(child_writes(free_null), "");
	ck_assert(child_exited(0));
}
END_TEST

START_TEST(what_cannot_be_had_is_refused)
{
	static const size_t huge[] = {(size_t)PTRDIFF_MAX, PTRDIFF_MAX - 65535,
	    (size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 65535,
	    (size_t)1 << 60};
	static const volatile size_t odd[] = {
	    0, 3, 24, 4095, SIZE_MAX, ((size_t)1 << 63) + 1};
	/* Volatile, because clang 14 crashes on such constant alignments. */
	static const volatile size_t aligns[] = {
	    (size_t)1 << 62, (size_t)1 << 63};
	size_t before = live();
	void *p = umem_alloc(100, UMEM_DEFAULT);

	for (unsigned i = 0; i < array_size(huge); i++)
		for (int j = 0; j < 6; j++) {
			void *q = NULL;

			errno = 0;
			if (j == 0)
				q = umem_alloc(huge[i], UMEM_DEFAULT);
			if (j == 1)
				q = umem_zalloc(huge[i], UMEM_DEFAULT);
			if (j == 2)
				q = umem_alloc_align(huge[i], 4096, 0);
			if (j == 3)
				q = umem_alloc_align(huge[i], aligns[0], 0);
			if (j == 4)
				q = alloc_resize(p, huge[i]);
			if (j == 5)
				q = umem_alloc_align(1, aligns[1], 0);
			ck_assert_ptr_null(q);
			ck_assert_int_eq(errno, ENOMEM);
		}
	for (unsigned i = 0; i < array_size(odd); i++) {
		errno = 0;
		ck_assert_ptr_null(umem_alloc_align(8, odd[i], UMEM_NOFAIL));
		ck_assert_int_eq(errno, EINVAL);
	}
	umem_free(p, 100);
	ck_assert_uint_eq(live(), before);
}
END_TEST

/* Zeroed blocks of each size must be zero, although freed blocks are dirty. */
START_TEST(zeroed_memory_is_zero_also_after_use)
{
	for (int round = 0; round < 3; round++)
		for (unsigned i = 0; i < array_size(sizes); i++) {
			void *p[6];

			for (int j = 0; j < 6; j++) {
				p[j] = umem_zalloc(sizes[i], UMEM_DEFAULT);
				ck_assert(is_zero(p[j], sizes[i]));
				memset(p[j], 0xff, sizes[i]);
			}
			for (int j = 0; j < 6; j++)
				umem_free(p[j], sizes[i]);
		}
}
END_TEST

/*
 * From 32 MiB on, umem_zalloc() purges pages instead of writing zeros.  The
 * block does not end at a page boundary.
 */
START_TEST(zeroed_memory_is_zero_when_it_is_large)
{
	size_t bytes = 33 * MIB + 12345;

	for (int round = 0; round < 3; round++) {
		char *p = umem_zalloc(bytes, UMEM_DEFAULT);

		ck_assert_ptr_nonnull(p);
		ck_assert(is_zero(p, bytes));
		/*
		 * Write to the end of the last unit, without the compiler's
		 * knowledge.
		 */
		__asm__ volatile("" : "+r"(p));
		memset(p, 0xff, align_up(bytes, 65536));
		umem_free(p, bytes);
		os_fail_nth(round == 1, 1000);
	}
	os_fail_nth(0, 0);
}
END_TEST

START_TEST(a_resized_block_keeps_what_was_in_it)
{
	size_t before = live();
	unsigned seed = 5;
	size_t size = 1;
	char *p = alloc_get(size);

	srand((unsigned)_i + 1);
	fill(p, size, seed);
	for (int i = 0; i < 150; i++) {
		size_t want = sizes[(unsigned)rand() % array_size(sizes)] +
			      (size_t)rand() % 100;
		size_t kept = want < size ? want : size;
		char *q = alloc_resize(p, want);

		ck_assert_ptr_nonnull(q);
		ck_assert_uint_ge(alloc_usable(q, "test"), want);
		ck_assert(is_filled(q, kept, seed));
		fill(q, want, ++seed);
		p = q;
		size = want;
	}
	alloc_free(p);
	ck_assert_uint_eq(live(), before);
}
END_TEST

START_TEST(a_block_stays_where_it_is_while_it_is_half_used)
{
	for (unsigned c = 2; c <= size_classes.n; c++) {
		size_t bytes = size_classes.bytes[c];
		char *p = alloc_get(bytes);

		ck_assert_ptr_eq(alloc_resize(p, bytes - 1), p);
		ck_assert_ptr_eq(alloc_resize(p, bytes / 2 + 1), p);
		ck_assert_ptr_eq(alloc_resize(p, bytes), p);
		/*
		 * A block that shrinks to a quarter moves to a smaller chunk.
		 */
		if (bytes > 64) {
			char *q = alloc_resize(p, bytes / 4);

			ck_assert_ptr_nonnull(q);
			ck_assert_uint_lt(alloc_usable(q, "test"), bytes);
			p = q;
		}
		alloc_free(p);
	}
}
END_TEST

START_TEST(a_block_that_grew_grows_on_in_place)
{
	size_t least = LARGE_GROWN;
	char *p = alloc_get(opaque(least)), *q;

	fill(p, least, 1);
	q = alloc_resize(p, least + 1);
	ck_assert_ptr_nonnull(q);
	ck_assert_uint_eq(large_count(), 1);
	ck_assert_uint_eq(alloc_usable(q, "test"), least + HEAP_UNIT);
	/* All memory behind the block is free, so the block grows in place. */
	for (size_t n = least; n < 2 * MIB; n += n / 8)
		ck_assert_ptr_eq(alloc_resize(q, n + HEAP_UNIT), q);
	/* Shrinking releases the memory that is cut off. */
	ck_assert_ptr_eq(alloc_resize(q, least + 1), q);
	ck_assert_uint_eq(alloc_usable(q, "test"), least + HEAP_UNIT);
	ck_assert(is_filled(q, least, 1));
	alloc_free_sized(q, least + 1, API_MALLOC, "test");
	ck_assert_uint_eq(large_count(), 0);
}
END_TEST

/* Classes of whole units, whose slabs have one chunk. */
START_TEST(a_block_with_a_slab_of_its_own_releases_its_tail)
{
	for (unsigned c = 1; c <= size_classes.n; c++) {
		size_t bytes = size_classes.bytes[c], before = live(), size;
		char *p;

		if (bytes % HEAP_UNIT != 0 || bytes < 2 * LARGE_GROWN)
			continue;
		p = alloc_get(opaque(bytes));
		size = bytes / 4 < LARGE_GROWN ? LARGE_GROWN : bytes / 4;
		fill(p, bytes, c);
		ck_assert_ptr_eq(alloc_resize(p, bytes / 2 + 1), p);
		ck_assert_uint_eq(alloc_usable(p, "test"), bytes);
		ck_assert_ptr_eq(alloc_resize(p, size), p);
		ck_assert_uint_eq(
		    alloc_usable(p, "test"), align_up(size, HEAP_UNIT));
		ck_assert_uint_eq(large_count(), 1);
		ck_assert(is_filled(p, size, c));
		alloc_free_sized(p, size, API_MALLOC, "test");
		ck_assert_uint_eq(large_count(), 0);
		ck_assert_uint_eq(live(), before);
	}
}
END_TEST

START_TEST(a_small_block_that_grows_is_of_a_class)
{
	unsigned class = size_class_of(LARGE_GROWN);
	char *p = alloc_get(size_classes.bytes[class - 1]);

	ck_assert_uint_eq(size_classes.bytes[class], LARGE_GROWN);
	p = alloc_resize(p, 2 * MIB);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(large_count(), 0);
	alloc_free(p);
}
END_TEST

START_TEST(a_large_block_that_shrinks_is_of_a_class_again)
{
	char *p = alloc_resize(alloc_get(opaque(900 * KIB)), 3 * MIB);

	ck_assert_uint_eq(large_count(), 1);
	p = alloc_resize(p, LARGE_GROWN);
	ck_assert_uint_eq(large_count(), 1);
	fill(p, LARGE_GROWN / 2, 2);
	p = alloc_resize(p, LARGE_GROWN / 2);
	ck_assert(is_filled(p, LARGE_GROWN / 2, 2));
	ck_assert_uint_eq(large_count(), 0);
	alloc_free(p);
}
END_TEST

/*
 * Fails each request in turn until the resize works.  The block keeps its
 * contents after each failure.
 */
START_TEST(a_refused_resize_keeps_the_block)
{
	static const size_t from[] = {
	    100, 5000, 100000, 9 * MIB, 9 * MIB, 20 * MIB, 900 * KIB};
	static const size_t to[] = {
	    200000, 900 * KIB, 9 * MIB, 40 * MIB, 100, 9 * MIB, 3 * MIB};

	for (unsigned i = 0; i < array_size(from); i++)
		for (unsigned burst = 1; burst <= 1000000; burst *= 1000000) {
			char *p = alloc_get(from[i]), *q = NULL;
			size_t least = from[i] < to[i] ? from[i] : to[i];

			fill(p, from[i], i);
			for (unsigned nth = 1; q == NULL; nth++) {
				size_t before = live();

				os_fail_nth(nth, burst);
				errno = 0;
				q = alloc_resize(p, to[i]);
				os_fail_nth(0, 0);
				ck_assert_uint_lt(nth, 1000);
				if (q != NULL)
					break;
				ck_assert_int_eq(errno, ENOMEM);
				ck_assert(is_filled(p, from[i], i));
				ck_assert_uint_eq(live(), before);
			}
			ck_assert(is_filled(q, least, i));
			alloc_free(q);
		}
}
END_TEST

START_TEST(a_good_size_is_that_of_the_block)
{
	ck_assert_uint_eq(umem_good_size(0), 0);
	ck_assert_uint_eq(umem_good_size(SIZE_MAX), SIZE_MAX);
	for (size_t size = 1; size < 40 * MIB; size += 1 + size / 9) {
		size_t good = umem_good_size(size);
		char *p = umem_alloc(size, UMEM_DEFAULT);

		ck_assert_uint_ge(good, size);
		ck_assert_uint_eq(good, alloc_usable(p, "test"));
		ck_assert_uint_eq(umem_good_size(good), good);
		ck_assert_uint_gt(umem_good_size(good + 1), good);
		umem_free(p, good);
		umem_free(umem_alloc(good, UMEM_DEFAULT), size);
	}
}
END_TEST

START_TEST(a_block_that_umem_realloc_resizes_has_its_new_size)
{
	size_t before = live(), size = 1;
	unsigned seed = 5;
	char *p = umem_realloc(NULL, 0, size, UMEM_DEFAULT);

	srand((unsigned)_i + 1);
	fill(p, size, seed);
	for (int i = 0; i < 150; i++) {
		size_t want = sizes[(unsigned)rand() % array_size(sizes)] +
			      (size_t)rand() % 100 + 1;
		size_t kept = want < size ? want : size;
		char *q = umem_realloc(p, size, want, UMEM_NOFAIL);

		ck_assert(umem_good_size(want) != umem_good_size(size) ||
			  q == p || size > SIZE_CLASS_MAX);
		ck_assert(is_filled(q, kept, seed));
		/* This free and a new block check the size. */
		umem_free(q, want);
		p = umem_alloc(want, UMEM_NOFAIL);
		fill(p, want, ++seed);
		size = want;
	}
	ck_assert_ptr_null(umem_realloc(p, size, 0, UMEM_DEFAULT));
	ck_assert_uint_eq(live(), before);
}
END_TEST

START_TEST(a_block_grows_in_place_in_its_chunk_and_in_the_heap)
{
	size_t size = 100, good = umem_good_size(size);
	char *p = umem_alloc(opaque(size), UMEM_DEFAULT), *q;

	ck_assert_ptr_eq(umem_realloc(p, size, good, UMEM_DEFAULT), p);
	ck_assert_ptr_eq(umem_realloc(p, good, size, UMEM_DEFAULT), p);
	q = umem_realloc(p, size, good + 1, UMEM_DEFAULT);
	ck_assert_ptr_ne(q, p);
	umem_free(q, good + 1);

	size = LARGE_GROWN + 1;
	p = umem_alloc(LARGE_GROWN, UMEM_DEFAULT);
	fill(p, LARGE_GROWN, 1);
	p = umem_realloc(p, LARGE_GROWN, size, UMEM_DEFAULT);
	for (size_t n = size; n < 2 * MIB; n += n / 8) {
		ck_assert_ptr_eq(umem_realloc(p, size, n, UMEM_DEFAULT), p);
		size = n;
	}
	ck_assert_ptr_eq(
	    umem_realloc(p, size, LARGE_GROWN + 1, UMEM_DEFAULT), p);
	ck_assert_uint_eq(alloc_usable(p, "test"), LARGE_GROWN + HEAP_UNIT);
	ck_assert(is_filled(p, LARGE_GROWN, 1));
	umem_free(p, LARGE_GROWN + 1);
	ck_assert_uint_eq(large_count(), 0);
}
END_TEST

START_TEST(a_refused_umem_realloc_keeps_the_block)
{
	static const size_t from[] = {100, 100000, 9 * MIB, 20 * MIB};
	static const size_t to[] = {200000, 9 * MIB, 40 * MIB, 9 * MIB};

	for (unsigned i = 0; i < array_size(from); i++) {
		char *p = umem_alloc(from[i], UMEM_DEFAULT), *q = NULL;
		size_t least = from[i] < to[i] ? from[i] : to[i];

		fill(p, from[i], i);
		for (unsigned nth = 1; q == NULL; nth++) {
			size_t before = live();

			os_fail_nth(nth, 1000000);
			errno = 0;
			q = umem_realloc(p, from[i], to[i], UMEM_DEFAULT);
			os_fail_nth(0, 0);
			ck_assert_uint_lt(nth, 1000);
			if (q != NULL)
				break;
			ck_assert_int_eq(errno, ENOMEM);
			ck_assert(is_filled(p, from[i], i));
			ck_assert_uint_eq(live(), before);
		}
		ck_assert(is_filled(q, least, i));
		umem_free(q, to[i]);
	}
	ck_assert_ptr_null(umem_realloc(NULL, 0, SIZE_MAX, UMEM_DEFAULT));
}
END_TEST

START_TEST(a_refused_request_is_enomem_and_loses_nothing)
{
	static const size_t want[] = {
	    16, 300, 5000, 60000, 500000, SIZE_CLASS_MAX, 30 * MIB, 300 * MIB};

	for (unsigned i = 0; i < array_size(want); i++)
		for (unsigned nth = 1;; nth++) {
			size_t before = live();
			void *p;

			os_fail_nth(nth, 1u << 30);
			errno = 0;
			p = umem_zalloc(want[i], UMEM_DEFAULT);
			os_fail_nth(0, 0);
			if (p != NULL) {
				ck_assert(is_zero(p, want[i]));
				umem_free(p, want[i]);
				ck_assert_uint_eq(live(), before);
				break;
			}
			ck_assert_int_eq(errno, ENOMEM);
			ck_assert_uint_eq(live(), before);
			ck_assert_uint_lt(nth, 1000);
		}
}
END_TEST

START_TEST(free_needs_nothing_and_keeps_errno)
{
	static void *p[MOST];
	size_t before = live();

	for (unsigned i = 0; i < MOST; i++)
		p[i] = umem_alloc(
		    sizes[i % (array_size(sizes) - 4)], UMEM_DEFAULT);
	os_fail_nth(1, 1u << 30);
	errno = 77;
	for (unsigned i = 0; i < MOST; i++)
		umem_free(p[i], sizes[i % (array_size(sizes) - 4)]);
	ck_assert_int_eq(errno, 77);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(live(), before);
}
END_TEST

/* If the kernel refuses memory, chunks that other classes cache are used. */
START_TEST(what_is_cached_is_found_before_a_request_fails)
{
	static void *p[64];
	size_t n = 0;
	void *q;

	for (; n < 64; n++)
		p[n] = umem_alloc(1 * MIB, UMEM_NOFAIL);
	for (unsigned i = 0; i < 64; i++)
		umem_free(p[i], 1 * MIB);
	/*
	 * The kernel refuses from here on.  The freed blocks of 1 MiB must
	 * serve the requests for 3 MiB.
	 */
	os_fail_nth(1, 1u << 30);
	for (n = 0; n < 10; n++) {
		p[n] = q = umem_alloc(3 * MIB, UMEM_DEFAULT);
		ck_assert_ptr_nonnull(q);
	}
	os_fail_nth(0, 0);
	for (n = 0; n < 10; n++)
		umem_free(p[n], 3 * MIB);
}
END_TEST

static char wrong[8];

static void *
churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	static const size_t most[] = {64, 64, 200, 1000, 5000, 60000, 300000};
	unsigned char *mine[64] = {NULL};
	size_t size[64];

	for (int i = 0; i < 20000; i++) {
		unsigned j = (unsigned)rand_r(&seed) % 64;
		size_t want = 1 + (size_t)rand_r(&seed) %
				      most[(unsigned)rand_r(&seed) % 7];

		if (mine[j] == NULL) {
			mine[j] = umem_alloc(want, UMEM_DEFAULT);
			size[j] = want;
		} else {
			if (mine[j][0] != j + 1 ||
			    mine[j][size[j] - 1] != j + 1)
				wrong[0]++;
			umem_free(mine[j], size[j]);
			mine[j] = NULL;
			continue;
		}
		mine[j][0] = mine[j][want - 1] = (unsigned char)(j + 1);
	}
	for (unsigned j = 0; j < 64; j++)
		if (mine[j] != NULL)
			umem_free(mine[j], size[j]);
	return NULL;
}

START_TEST(threads_leave_nothing_behind)
{
	size_t before = live();
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < 20; i++)
		umem_reap();
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(wrong[0], 0);
	ck_assert_uint_eq(live(), before);
	update_trim();
	for (unsigned c = 1; c <= size_classes.n; c++)
		ck_assert(class_cache[c] == NULL ||
			  slab_store_check(&class_cache[c]->slabs));
	ck_assert_uint_eq(live(), before);
}
END_TEST

static void
free_other_size(void)
{
	umem_free(umem_alloc(100, UMEM_DEFAULT), 200);
}

static void
free_inside(void)
{
	umem_free((char *)umem_alloc(1000, UMEM_DEFAULT) + 16, 1000);
}

static void
free_aligned_of_more(void)
{
	umem_free_align(umem_alloc_align(100, 64, UMEM_DEFAULT), 1 << 20);
}

static void
resize_stack(void)
{
	int here;

	alloc_resize(&here, 10);
}

static void
resize_other_size(void)
{
	void *p = umem_alloc(opaque(100), UMEM_DEFAULT);

	umem_free(umem_realloc(p, opaque(200), 300, UMEM_DEFAULT), 300);
}

/* Frees with a size or an alignment that does not fit; each is counted. */
static void
free_sized_less(void)
{
	alloc_free_sized(
	    alloc_get(opaque(1000)), opaque(100), API_MALLOC, "free_sized");
}

static void
free_sized_more(void)
{
	alloc_free_sized(
	    alloc_get(opaque(1000)), opaque(5000), API_NEW, "operator delete");
}

static void
free_sized_large(void)
{
	alloc_free_sized(
	    alloc_get(opaque(20 * MIB)), 2 * MIB, API_MALLOC, "free_sized");
}

static void
free_aligned_elsewhere(void)
{
	char *p = alloc_aligned(4096, 1024);

	alloc_free_aligned(p, 1 << 30, 4096, API_MALLOC, "free_aligned_sized");
}

/*
 * The block size, and the number of frees between the two frees of one block.
 */
static size_t twice_size;
static unsigned nbetween;

static void
free_twice(void)
{
	void *p = alloc_get(twice_size), *q = alloc_get(twice_size);

	alloc_free(p);
	if (nbetween == 1)
		alloc_free(q);
	alloc_free(p);
}

static void
umem_free_twice(void)
{
	void *p = umem_alloc(twice_size, UMEM_DEFAULT);
	void *q = umem_alloc(twice_size, UMEM_DEFAULT);

	umem_free(p, twice_size);
	if (nbetween == 1)
		umem_free(q, twice_size);
	umem_free(p, twice_size);
}

START_TEST(one_of_the_last_two_freed_is_not_freed_again)
{
	static void (*const f[])(void) = {free_twice, umem_free_twice};

	/* In locked mode, another CPU does not see this one's newest rounds. */
	stay_here();
	twice_size = sizes[_i];
	for (unsigned i = 0; i < 2 * array_size(f); i++) {
		const char *said;

		nbetween = i / 2;
		/* The first magazines of large chunks hold two rounds. */
		if (nbetween == 1 && twice_size > 2 * KIB)
			break;
		said = child_writes(f[i % 2]);
		ck_assert_msg(strstr(said, "block freed twice") != NULL,
		    "%zu bytes, %u between: %s", twice_size, nbetween, said);
		ck_assert(child_aborted());
	}
}
END_TEST

START_TEST(misuse_ends_the_process)
{
	static void (*const f[])(void) = {free_other_size, free_inside,
	    free_aligned_of_more, resize_stack, resize_other_size};
	static const char *const text[] = {"size 200 does not fit the block\n",
	    "not the start of a block\n", "size 1048576 does not fit the block",
	    "umem: realloc(0x", "size 200 does not fit the block\n"};

	for (unsigned i = 0; i < array_size(f); i++) {
		const char *said = child_writes(f[i]);

		ck_assert_msg(strstr(said, text[i]) != NULL, "%s", said);
		ck_assert(child_aborted());
	}
}
END_TEST

START_TEST(a_wrong_size_frees_the_block_and_counts)
{
	static void (*const f[])(void) = {free_sized_less, free_sized_more,
	    free_sized_large, free_aligned_elsewhere};

	for (unsigned i = 0; i < 1000; i++) {
		size_t before = account_get(&account.nwrong_sizes);
		size_t large = account_get(&account.large);

		f[i % array_size(f)]();
		ck_assert_uint_eq(
		    account_get(&account.nwrong_sizes), before + 1);
		ck_assert_uint_eq(account_get(&account.large), large);
	}
}
END_TEST

static void
free_half(void)
{
	umem_free(umem_alloc(opaque(100000), UMEM_DEFAULT), opaque(40000));
}

static void
resize_freed(void)
{
	void *p = alloc_get(opaque(300000));

	alloc_free(p);
	alloc_resize(p, opaque(2000000));
}

static void
resize_freed_to_slab(void)
{
	void *p = alloc_get(opaque(300000));

	alloc_free(p);
	cache_reap(class_cache[size_class_of(300000)]);
	alloc_resize(p, opaque(2000000));
}

/* The slab of the block is free, but has not been released. */
static void
resize_freed_to_kept_slab(void)
{
	void *p = alloc_get(opaque(300000));
	struct umem_cache *cache = class_cache[size_class_of(300000)];

	alloc_free(p);
	cache_drain(cache, /* unused */ false);
	ck_assert_uint_ne(slab_total(&cache->slabs), 0);
	alloc_resize(p, opaque(2000000));
}

START_TEST(a_freed_block_does_not_become_a_large_block)
{
	if (alloc_fast.units == 0)
		return;
	stay_here();
	ck_assert_ptr_nonnull(
	    strstr(child_writes(resize_freed), "freed twice"));
	ck_assert(child_aborted());
	child_writes(resize_freed_to_slab);
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(
	    strstr(child_writes(resize_freed_to_kept_slab), "freed twice"));
	ck_assert(child_aborted());
}
END_TEST

START_TEST(a_size_may_get_a_cached_chunk_of_a_larger_class)
{
	unsigned nlarger = 0;

	if (alloc_fast.units == 0)
		return;
	stay_here();
	for (size_t size = SIZE_SMALL + 1; size <= SIZE_CLASS_MAX;
	     size += size / 3) {
		size_t good = umem_good_size(size), usable;
		void *p = alloc_get(umem_good_size(good + good / 3));

		alloc_free(p);
		p = umem_alloc(size, UMEM_DEFAULT);
		usable = alloc_usable(p, "test");
		ck_assert_uint_ge(usable, good);
		ck_assert_uint_gt(size, usable / 2);
		nlarger += usable > good;
		/* In place, and freed, by its size: no misuse. */
		ck_assert_ptr_eq(umem_realloc(p, size, usable, 0), p);
		ck_assert_ptr_eq(umem_realloc(p, usable, size, 0), p);
		umem_free(p, size);
		alloc_free_sized(
		    alloc_get(size), size, API_MALLOC, "free_sized");
	}
	ck_assert_uint_gt(nlarger, 5);
	ck_assert_uint_eq(account_get(&account.nwrong_sizes), 0);
	ck_assert_ptr_nonnull(
	    strstr(child_writes(free_half), "does not fit the block"));
	ck_assert(child_aborted());
}
END_TEST

Suite *
alloc_suite(void)
{
	Suite *suite = suite_create("alloc");
	TCase *tc = tcase_create("alloc");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, blocks_are_aligned_by_their_size);
	tcase_add_test(tc, every_alignment_of_every_size);
	tcase_add_test(tc, nothing_is_no_memory_and_no_failure);
	tcase_add_test(tc, null_may_be_freed);
	tcase_add_test(tc, what_cannot_be_had_is_refused);
	tcase_add_test(tc, zeroed_memory_is_zero_also_after_use);
	tcase_add_test(tc, zeroed_memory_is_zero_when_it_is_large);
	tcase_add_loop_test(tc, a_resized_block_keeps_what_was_in_it, 0, 3);
	tcase_add_test(tc, a_block_stays_where_it_is_while_it_is_half_used);
	tcase_add_test(tc, a_block_that_grew_grows_on_in_place);
	tcase_add_test(tc, a_block_with_a_slab_of_its_own_releases_its_tail);
	tcase_add_test(tc, a_small_block_that_grows_is_of_a_class);
	tcase_add_test(tc, a_large_block_that_shrinks_is_of_a_class_again);
	tcase_add_test(tc, a_good_size_is_that_of_the_block);
	tcase_add_loop_test(
	    tc, a_block_that_umem_realloc_resizes_has_its_new_size, 0, 3);
	tcase_add_test(tc, a_block_grows_in_place_in_its_chunk_and_in_the_heap);
	tcase_add_test(tc, a_refused_umem_realloc_keeps_the_block);
	tcase_add_test(tc, a_refused_request_is_enomem_and_loses_nothing);
	tcase_add_test(tc, free_needs_nothing_and_keeps_errno);
	tcase_add_test(tc, what_is_cached_is_found_before_a_request_fails);
	tcase_add_test(tc, threads_leave_nothing_behind);
	tcase_add_test(tc, misuse_ends_the_process);
	tcase_add_test(tc, a_wrong_size_frees_the_block_and_counts);
	tcase_add_test(tc, a_freed_block_does_not_become_a_large_block);
	tcase_add_test(tc, a_size_may_get_a_cached_chunk_of_a_larger_class);
	tcase_add_loop_test(tc, one_of_the_last_two_freed_is_not_freed_again, 0,
	    (int)array_size(sizes));
	tcase_add_test(tc, a_refused_resize_keeps_the_block);
	suite_add_tcase(suite, tc);
	return suite;
}
