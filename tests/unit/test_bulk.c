/* test_bulk.c - allocating and freeing many objects or blocks by one call */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/unit/stay.h"
#include "umem/cache/cache.h"
#include "umem/umem.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

#define MOST     5000
#define NTHREADS 4

struct object {
	uint32_t magic;
	uint32_t owner; /* [atomic] */
};

static void *held[MOST];
static uint32_t nmade, nunmade, nwrong; /* [atomic] */
static uint32_t fail_at;                /* this constructor call fails */

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	if (fail_at != 0 && nmade + 1 == fail_at)
		return -1;
	*(struct object *)buf = (struct object){.magic = 0x6f626a};
	__atomic_add_fetch(&nmade, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct object *object = buf;

	(void)priv;
	if (object->magic != 0x6f626a)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	object->magic = 0;
	__atomic_add_fetch(&nunmade, 1, __ATOMIC_RELAXED);
}

static umem_cache_t *
create(size_t bytes, int cflags)
{
	umem_cache_t *cache = umem_cache_create(
	    "bulk", bytes, 0, NULL, NULL, NULL, NULL, NULL, cflags);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a;
	uintptr_t y = (uintptr_t) * (void *const *)b;

	return (x > y) - (x < y);
}

/* Checks that all n objects are writable and that no two overlap. */
static void
check_distinct(void **objects, size_t n, size_t bytes)
{
	for (size_t i = 0; i < n; i++)
		memset(objects[i], (int)i, bytes);
	qsort(objects, n, sizeof(*objects), by_address);
	for (size_t i = 1; i < n; i++)
		ck_assert_uint_ge(
		    (uintptr_t)objects[i] - (uintptr_t)objects[i - 1], bytes);
}

START_TEST(objects_are_distinct_and_come_again)
{
	static const int flags[] = {0, UMC_NOMAGAZINE};
	umem_cache_t *cache = create(40, flags[_i]);

	for (size_t n = 1; n <= MOST; n = n * 5 / 2 + 1) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, n, held, UMEM_DEFAULT), n);
		check_distinct(held, n, 40);
		ck_assert_uint_eq(cache_live(cache), n);
		umem_cache_free_bulk(cache, n, held);
		ck_assert_uint_eq(cache_live(cache), 0);
	}
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(bulk_and_single_calls_mix)
{
	umem_cache_t *cache = create(64, 0);

	for (int round = 0; round < 50; round++) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 300, held, UMEM_DEFAULT), 300);
		for (int i = 300; i < 600; i++)
			held[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check_distinct(held, 600, 64);
		for (int i = 0; i < 200; i++)
			umem_cache_free(cache, held[i]);
		umem_cache_free_bulk(cache, 400, held + 200);
	}
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(no_object_is_asked_for_and_none_is_touched)
{
	umem_cache_t *cache = create(64, 0);

	held[0] = &nmade;
	errno = 7;
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 0, held, 0), 0);
	ck_assert_uint_eq(umem_alloc_bulk(64, 0, held, 0), 0);
	umem_cache_free_bulk(cache, 0, held);
	umem_free_bulk(0, held, 64);
	ck_assert_int_eq(errno, 7);
	ck_assert_ptr_eq(held[0], &nmade);
}
END_TEST

/* The loaded magazine is partly filled, so a section could push to it. */
START_TEST(no_object_is_freed_into_a_magazine_with_room)
{
	umem_cache_t *cache = create(64, 0);

	stay_here();
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 3, held, UMEM_DEFAULT), 3);
	umem_cache_free(cache, held[0]);
	umem_cache_free_bulk(cache, 0, held);
	umem_cache_free_bulk(cache, 0, NULL);
	ck_assert_ptr_eq(umem_cache_alloc(cache, UMEM_DEFAULT), held[0]);
	umem_cache_free_bulk(cache, 3, held);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(null_objects_are_ignored)
{
	umem_cache_t *cache = create(64, _i == 0 ? 0 : UMC_NOMAGAZINE);

	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 100, held, UMEM_DEFAULT), 100);
	for (int i = 0; i < 100; i += 3) {
		umem_cache_free(cache, held[i]);
		held[i] = NULL;
	}
	umem_cache_free_bulk(cache, 100, held);
	ck_assert_uint_eq(cache_live(cache), 0);
	ck_assert_uint_eq(umem_alloc_bulk(200, 10, held, UMEM_DEFAULT), 10);
	umem_free(held[4], 200);
	held[4] = NULL;
	umem_free_bulk(10, held, 200);
	umem_cache_destroy(cache);
}
END_TEST

/* One object of n is NULL or equals an earlier one: at each place, by each. */
START_TEST(the_first_object_that_is_not_distinct_is_found)
{
	void *const whole[] = {held, held + 1, held + 2, held + 3, held + 4,
	    held + 5, held + 6, held + 7, held + 8};
	void *objects[sizeof(whole) / sizeof(*whole)];
	unsigned most = sizeof(whole) / sizeof(*whole);

	for (unsigned n = 0; n <= most; n++) {
		ck_assert_uint_eq(magazine_distinct(whole, n), n);
		for (unsigned bad = 0; bad < most; bad++) {
			unsigned want = bad < n ? bad : n;

			memcpy(objects, whole, sizeof(whole));
			objects[bad] = NULL;
			ck_assert_uint_eq(magazine_distinct(objects, n), want);
			for (unsigned back = 1; back <= bad; back++) {
				objects[bad] = whole[bad - back];
				ck_assert_uint_eq(magazine_distinct(objects, n),
				    back <= 2 ? want : n);
			}
		}
	}
}
END_TEST

START_TEST(the_callers_array_is_not_read_beyond_its_end)
{
	umem_cache_t *cache = create(64, 0);
	size_t page = os_page_size();
	char *pages = os_map(2 * page);
	void **end = (void *)(pages + page);

	ck_assert(pages != NULL && os_protect(end, page));
	for (size_t n = 1; n < 10; n++) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, n, end - n, UMEM_DEFAULT), n);
		umem_cache_free_bulk(cache, n, end - n);
		ck_assert_uint_eq(
		    umem_alloc_bulk(64, n, end - n, UMEM_DEFAULT), n);
		umem_free_bulk(n, end - n, 64);
	}
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(objects_are_constructed_once)
{
	umem_cache_t *cache = umem_cache_create("made", sizeof(struct object),
	    0, construct, destruct, NULL, NULL, NULL, 0);

	for (int round = 0; round < 10; round++) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 500, held, UMEM_DEFAULT), 500);
		for (int i = 0; i < 500; i++)
			ck_assert_uint_eq(
			    ((struct object *)held[i])->magic, 0x6f626a);
		umem_cache_free_bulk(cache, 500, held);
	}
	ck_assert_uint_eq(nmade, 500);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, 500);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_constructor_that_refuses_fails_the_whole_request)
{
	umem_cache_t *cache = umem_cache_create("made", sizeof(struct object),
	    0, construct, destruct, NULL, NULL, NULL, 0);

	fail_at = 40;
	errno = 0;
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 100, held, UMEM_DEFAULT), 0);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(cache_live(cache), 0);
	ck_assert_uint_eq(nmade, 39);
	fail_at = 0;
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 100, held, UMEM_DEFAULT), 100);
	ck_assert_uint_eq(nmade, 100);
	umem_cache_free_bulk(cache, 100, held);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, 100);
}
END_TEST

/* An arena of 64 pieces cannot serve a request for 65. */
START_TEST(all_or_nothing)
{
	static char memory[65 * 4096] __attribute__((aligned(4096)));
	vmem_t *arena = vmem_create("small", memory, sizeof(memory) - 4096,
	    4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
	umem_cache_t *cache = umem_cache_create(
	    "small", 4096, 0, NULL, NULL, NULL, NULL, arena, UMC_NOTOUCH);

	for (int i = 0; i < 20; i++) {
		errno = 0;
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 65, held, UMEM_DEFAULT), 0);
		ck_assert_int_eq(errno, ENOMEM);
		ck_assert_uint_eq(cache_live(cache), 0);
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 64, held, UMEM_DEFAULT), 64);
		umem_cache_free_bulk(cache, 64, held);
	}
	umem_cache_destroy(cache);
	vmem_destroy(arena);
}
END_TEST

static jmp_buf out;
static size_t live_in_callback;
static umem_cache_t *asked;

static int
leave(void)
{
	live_in_callback = cache_live(asked);
	longjmp(out, 1);
}

START_TEST(nothing_is_held_while_the_nofail_callback_runs)
{
	static char memory[4096] __attribute__((aligned(4096)));
	vmem_t *arena = vmem_create("one", memory, sizeof(memory), 4096, NULL,
	    NULL, NULL, 0, VM_NOSLEEP);

	asked =
	    umem_cache_create("one", 64, 0, NULL, NULL, NULL, NULL, arena, 0);
	live_in_callback = 1;
	umem_nofail_callback(leave);
	if (setjmp(out) == 0)
		umem_cache_alloc_bulk(asked, 1000, held, UMEM_NOFAIL);
	ck_assert_uint_eq(live_in_callback, 0);
	ck_assert_uint_eq(cache_live(asked), 0);
}
END_TEST

START_TEST(requests_fail_at_will)
{
	umem_cache_t *cache = create(64, 0);

	umem_setmtbf(1);
	errno = 0;
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 10, held, UMEM_DEFAULT), 0);
	ck_assert_int_eq(errno, ENOMEM);
	errno = 0;
	ck_assert_uint_eq(umem_alloc_bulk(64, 10, held, UMEM_DEFAULT), 0);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(umem_alloc_bulk(64, 10, held, UMEM_NOFAIL), 10);
	umem_free_bulk(10, held, 64);
	umem_setmtbf(0);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 10, held, UMEM_DEFAULT), 10);
	umem_cache_free_bulk(cache, 10, held);
}
END_TEST

START_TEST(blocks_of_all_sizes_are_those_of_single_calls)
{
	static const size_t sizes[] = {
	    1, 8, 100, 1000, 5000, 40000, 200000, 3 << 20};
	size_t size = sizes[_i % 8];
	size_t n = size > 100000 ? 8 : 64;

	if (_i >= 8)
		ck_assert_int_eq(umem_sample(4096), 0);
	for (int round = 0; round < 3; round++) {
		ck_assert_uint_eq(
		    umem_alloc_bulk(size, n, held, UMEM_DEFAULT), n);
		check_distinct(held, n, size);
		umem_free(held[0], size);
		held[0] = umem_alloc(size, UMEM_DEFAULT);
		umem_free_bulk(n, held, size);
	}
	ck_assert_uint_eq(umem_alloc_bulk(0, 2, held, UMEM_DEFAULT), 2);
	umem_free_bulk(2, held, 0);
}
END_TEST

START_TEST(a_second_free_in_one_array_is_misuse)
{
	umem_cache_t *cache = create(64, _i == 0 ? 0 : UMC_NOMAGAZINE);

	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 8, held, 0), 8);
	held[6] = held[5];
	umem_cache_free_bulk(cache, 8, held);
}
END_TEST

START_TEST(a_block_of_another_size_is_misuse)
{
	ck_assert_uint_eq(umem_alloc_bulk(64, 8, held, 0), 8);
	held[3] = umem_alloc(1000, 0);
	umem_free_bulk(8, held, 64);
}
END_TEST

static umem_cache_t *shared;

static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	void *mine[700];

	for (int i = 0; i < 3000; i++) {
		size_t n;

		x = x * 1664525 + 1013904223;
		n = 1 + (x >> 16) % array_size(mine);
		if (umem_cache_alloc_bulk(shared, n, mine, 0) != n)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		for (size_t k = 0; k < n; k++) {
			struct object *object = mine[k];

			if (__atomic_exchange_n(
				&object->owner, 1, __ATOMIC_RELAXED) != 0)
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
		}
		for (size_t k = 0; k < n; k++)
			__atomic_store_n(&((struct object *)mine[k])->owner, 0,
			    __ATOMIC_RELAXED);
		umem_cache_free_bulk(shared, n, mine);
		if (i % 500 == 0)
			umem_cache_reap_now(shared);
	}
	return NULL;
}

START_TEST(no_object_has_two_owners)
{
	pthread_t thread[NTHREADS];

	shared = umem_cache_create("shared", sizeof(struct object), 0,
	    construct, destruct, NULL, NULL, NULL, 0);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(cache_live(shared), 0);
	umem_cache_destroy(shared);
	ck_assert_uint_eq(nmade, nunmade);
}
END_TEST

Suite *
bulk_suite(void)
{
	Suite *suite = suite_create("bulk");
	TCase *tcase = tcase_create("bulk");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, objects_are_distinct_and_come_again, 0, 2);
	tcase_add_test(tcase, bulk_and_single_calls_mix);
	tcase_add_test(tcase, no_object_is_asked_for_and_none_is_touched);
	tcase_add_test(tcase, no_object_is_freed_into_a_magazine_with_room);
	tcase_add_loop_test(tcase, null_objects_are_ignored, 0, 2);
	tcase_add_test(tcase, the_first_object_that_is_not_distinct_is_found);
	tcase_add_test(tcase, the_callers_array_is_not_read_beyond_its_end);
	tcase_add_test(tcase, objects_are_constructed_once);
	tcase_add_test(
	    tcase, a_constructor_that_refuses_fails_the_whole_request);
	tcase_add_test(tcase, all_or_nothing);
	tcase_add_test(tcase, nothing_is_held_while_the_nofail_callback_runs);
	tcase_add_test(tcase, requests_fail_at_will);
	tcase_add_loop_test(
	    tcase, blocks_of_all_sizes_are_those_of_single_calls, 0, 16);
	tcase_add_loop_test_raise_signal(
	    tcase, a_second_free_in_one_array_is_misuse, SIGABRT, 0, 2);
	tcase_add_test_raise_signal(
	    tcase, a_block_of_another_size_is_misuse, SIGABRT);
	tcase_add_test(tcase, no_object_has_two_owners);
	suite_add_tcase(suite, tcase);
	return suite;
}
