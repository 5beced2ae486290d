/* test_meta.c - memory for the library's own structures */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/hooks.h"
#include "vmem/account.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define LARGEST    (200 * KIB)
/* Blocks above this size have their own mapping. */
#define STEP_ABOVE (65 * KIB)

static bool
is_filled(const void *at, int c, size_t bytes)
{
	const char *p = at;

	return p[0] == (char)c && memcmp(p, p + 1, bytes - 1) == 0;
}

static char stray; /* set if a block was missing or not zero */

static size_t
next_size(size_t bytes)
{
	return bytes < 600 ? bytes + 1 : bytes + bytes / 7;
}

static size_t
alignment(size_t bytes)
{
	return bytes >= CACHE_LINE ? CACHE_LINE : 16;
}

START_TEST(every_size_is_zero_aligned_and_apart)
{
	enum {
		MOST = 1000
	};
	static char *at[MOST];
	static size_t bytes[MOST];
	unsigned n = 0;

	for (size_t b = 1; b < LARGEST; b = next_size(b), n++) {
		at[n] = meta_alloc(b);
		bytes[n] = b;
		ck_assert_ptr_nonnull(at[n]);
		ck_assert_uint_eq((uintptr_t)at[n] % alignment(b), 0);
		ck_assert(is_filled(at[n], 0, b));
		memset(at[n], (int)n | 1, b);
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert(is_filled(at[i], (int)i | 1, bytes[i]));
	for (unsigned i = 0; i < n; i++)
		meta_free(at[i], bytes[i]);
	/* Allocate the same sizes again, from freed blocks that are dirty. */
	for (unsigned i = 0; i < n; i++) {
		at[i] = meta_alloc(bytes[i]);
		ck_assert_uint_eq((uintptr_t)at[i] % alignment(bytes[i]), 0);
		ck_assert(is_filled(at[i], 0, bytes[i]));
		memset(at[i], (int)i | 1, bytes[i]);
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert(is_filled(at[i], (int)i | 1, bytes[i]));
}
END_TEST

START_TEST(what_is_freed_is_used_again)
{
	static const size_t sizes[] = {
	    1, 16, 17, 64, 65, 80, 1000, 4096, 65536, 65537, 150000};

	for (size_t i = 0; i < array_size(sizes); i++) {
		size_t used = meta_used(), mapped;
		void *block = meta_alloc(sizes[i]);

		ck_assert_uint_ge(meta_used(), used + sizes[i]);
		ck_assert_uint_le(
		    meta_used(), used + sizes[i] + sizes[i] / 4 + 4096);
		meta_free(block, sizes[i]);
		ck_assert_uint_eq(meta_used(), used);
		mapped = meta_mapped();
		for (int j = 0; j < 1000; j++) {
			block = meta_alloc(sizes[i]);
			ck_assert_ptr_nonnull(block);
			meta_free(block, sizes[i]);
		}
		ck_assert_uint_eq(meta_mapped(), mapped);
		ck_assert_uint_eq(meta_used(), used);
	}
}
END_TEST

/*
 * Sizes are rounded up to a quarter of a power of two, and chunks are used
 * completely.
 */
START_TEST(little_is_mapped_beyond_what_is_used)
{
	size_t used = meta_used(), mapped = meta_mapped();

	for (int i = 0; i < 20000; i++)
		ck_assert_ptr_nonnull(meta_alloc(1 + (size_t)i % 300));
	ck_assert_uint_le(
	    meta_mapped() - mapped, (meta_used() - used) * 5 / 4 + 512 * KIB);
	ck_assert_uint_ge(meta_mapped(), meta_used());
}
END_TEST

START_TEST(a_refusal_is_null_and_loses_nothing)
{
	size_t bytes = _i == 0 ? 48 : _i == 1 ? 60000 : 100000;
	size_t used, mapped;
	unsigned nfailed = 0;

	for (int i = 0; i < 60000 && nfailed < 5; i++) {
		used = meta_used();
		mapped = meta_mapped();
		os_fail_nth(1, 1);
		void *block = meta_alloc(bytes);
		os_fail_nth(0, 0);
		if (block != NULL)
			continue;
		nfailed++;
		ck_assert_uint_eq(meta_used(), used);
		ck_assert_uint_eq(meta_mapped(), mapped);
		block = meta_alloc(bytes);
		ck_assert_ptr_nonnull(block);
		ck_assert(is_filled(block, 0, bytes));
		ck_assert(!meta_is_exhausted());
	}
	ck_assert_uint_eq(nfailed, 5);
}
END_TEST

static char food[128 * KIB] __attribute__((aligned(64)));

/* Otherwise fork() could copy the memory without the count. */
static void
food_is_counted(struct lock *lock)
{
	ck_assert_uint_eq(lock->rank, LOCK_META);
	ck_assert_uint_eq(account_get(&account.donated), sizeof(food));
}

START_TEST(the_starved_are_fed)
{
	char *at;

	memset(food, 0x77, sizeof(food));
	os_fail_nth(1, 1u << 30);
	while (meta_alloc(1000) != NULL)
		;
	ck_assert(meta_is_exhausted());
	hook_lock_released = food_is_counted;
	meta_donate(food, sizeof(food));
	hook_lock_released = NULL;
	ck_assert(!meta_is_exhausted());
	for (int i = 0; i < 100; i++) {
		at = meta_alloc(1000);
		ck_assert_ptr_nonnull(at);
		ck_assert(at >= food && at + 1000 <= food + sizeof(food));
		ck_assert_uint_eq((uintptr_t)at % CACHE_LINE, 0);
		ck_assert(is_filled(at, 0, 1000));
		memset(at, 0x66, 1000);
	}
	while ((at = meta_alloc(1000)) != NULL)
		ck_assert(at >= food && at + 1000 <= food + sizeof(food));
	os_fail_nth(0, 0);
	ck_assert_ptr_nonnull(meta_alloc(1000));
}
END_TEST

/* After a refused munmap() only this range is lost. */
START_TEST(a_refused_unmap_is_no_failure)
{
	size_t used = meta_used(), mapped = meta_mapped();
	void *block = meta_alloc(100000);

	os_fail_nth(1, 1);
	meta_free(block, 100000);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(meta_used(), used);
	ck_assert_uint_ge(meta_mapped(), mapped + 100000);
	ck_assert_ptr_nonnull(meta_alloc(100000));
}
END_TEST

/* CPU time to free n blocks that have their own mappings, oldest first. */
static uint64_t
time_of_frees(unsigned n)
{
	static void *block[16000];
	struct timespec t;
	uint64_t before;

	for (unsigned i = 0; i < n; i++) {
		block[i] = meta_alloc(STEP_ABOVE);
		ck_assert_ptr_nonnull(block[i]);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	before = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	for (unsigned i = 0; i < n; i++)
		meta_free(block[i], STEP_ABOVE);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - before;
}

START_TEST(a_free_takes_as_long_whatever_number_is_mapped)
{
	uint64_t few = UINT64_MAX, many = UINT64_MAX;

	/* Another process can only increase a time, so take the minimum. */
	for (int i = 0; i < 8 && (i == 0 || many / 16 > 3 * few); i++) {
		uint64_t now = time_of_frees(1000);

		few = now < few ? now : few;
		now = time_of_frees(16000);
		many = now < many ? now : many;
	}
	ck_assert_uint_le(many / 16, 3 * few);
}
END_TEST

START_TEST(more_than_there_is_is_refused)
{
	size_t used = meta_used();

	ck_assert_ptr_null(meta_alloc((size_t)1 << 60));
	ck_assert_ptr_null(meta_alloc(SIZE_MAX));
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

static void *
churn(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	char *at[16] = {NULL};
	size_t bytes[16];

	for (int n = 0; n < 60000; n++) {
		x = x * 1664525 + 1013904223;
		unsigned i = x >> 28;
		if (at[i] != NULL) {
			if (!is_filled(at[i], (int)i + 1, bytes[i]))
				return at[i];
			meta_free(at[i], bytes[i]);
			at[i] = NULL;
			continue;
		}
		bytes[i] = 1 + (x >> 16) % (n % 100 == 0 ? 70000 : 500);
		at[i] = meta_alloc(bytes[i]);
		if (at[i] == NULL || !is_filled(at[i], 0, bytes[i]))
			return &stray;
		memset(at[i], (int)i + 1, bytes[i]);
	}
	for (unsigned i = 0; i < 16; i++)
		if (at[i] != NULL)
			meta_free(at[i], bytes[i]);
	return NULL;
}

START_TEST(threads_do_not_get_each_others_blocks)
{
	pthread_t thread[4];
	size_t used = meta_used();
	void *wrong;

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, churn, (void *)i);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(thread[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

Suite *
meta_suite(void)
{
	Suite *suite = suite_create("meta");
	TCase *tcase = tcase_create("meta");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, every_size_is_zero_aligned_and_apart);
	tcase_add_test(tcase, what_is_freed_is_used_again);
	tcase_add_test(tcase, little_is_mapped_beyond_what_is_used);
	tcase_add_loop_test(tcase, a_refusal_is_null_and_loses_nothing, 0, 3);
	tcase_add_test(tcase, the_starved_are_fed);
	tcase_add_test(tcase, a_refused_unmap_is_no_failure);
	tcase_add_test(tcase, more_than_there_is_is_refused);
	tcase_add_test(tcase, a_free_takes_as_long_whatever_number_is_mapped);
	tcase_add_test(tcase, threads_do_not_get_each_others_blocks);
	suite_add_tcase(suite, tcase);
	return suite;
}
