/*
 * test_reserve.c - the reserve of objects that a cache keeps for urgent
 * requests
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "umem/malloc/alloc.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/options.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

#define MOST     1000
#define NTHREADS 4
#define PIECES   8

static void *held[MOST];
static uint32_t nmade, nunmade, nwrong; /* [atomic] */
static uint32_t made_most = UINT32_MAX; /* the constructor refuses more */

struct object {
	uint32_t magic;
	uint32_t owner; /* [atomic] */
	char rest[56];
};

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	if (__atomic_add_fetch(&nmade, 1, __ATOMIC_RELAXED) > made_most) {
		__atomic_sub_fetch(&nmade, 1, __ATOMIC_RELAXED);
		return -1;
	}
	*(struct object *)buf = (struct object){.magic = 0x6f626a};
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)priv;
	if (((struct object *)buf)->magic != 0x6f626a)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&nunmade, 1, __ATOMIC_RELAXED);
}

enum kind {
	PLAIN,
	NO_MAGAZINES,
	GUARDS,
	KINDS_OF_CACHE
};

/*
 * Create a cache over an arena of this many pages, or over the heap if pages is
 * 0.
 */
static umem_cache_t *
create(enum kind kind, size_t pages, struct umem_cache_args args)
{
	static char memory[PIECES * 4096] __attribute__((aligned(4096)));
	umem_cache_t *cache;

	ck_assert(umem_ready());
	if (pages != 0)
		args.source = vmem_create("few", memory, pages * 4096, 4096,
		    NULL, NULL, NULL, 0, VM_NOSLEEP);
	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	if (kind == GUARDS)
		options_parse_debug("guards,audit");
	args.size = sizeof(struct object);
	args.cflags = kind == NO_MAGAZINES ? UMC_NOMAGAZINE : 0;
	cache = umem_cache_create_args("reserved", &args, sizeof(args));
	debug.on = false;
	return cache;
}

static struct umem_cache_limits
limits(umem_cache_t *cache)
{
	struct umem_cache_limits out;

	ck_assert_int_eq(umem_cache_limits(cache, &out, sizeof(out)), 0);
	return out;
}

static void
fails(umem_cache_t *cache, int flags)
{
	errno = 0;
	ck_assert_ptr_null(umem_cache_alloc(cache, flags));
	ck_assert_int_eq(errno, ENOMEM);
}

/* Allocate until a request with these flags fails. */
static size_t
exhaust(umem_cache_t *cache, size_t from, int flags)
{
	while ((held[from] = umem_cache_alloc(cache, flags)) != NULL) {
		memset(((struct object *)held[from])->rest, 7, 56);
		from++;
	}
	ck_assert_int_eq(errno, ENOMEM);
	return from;
}

START_TEST(a_reserve_serves_requests_that_ask_for_it)
{
	umem_cache_t *cache = create(
	    (enum kind)_i, PIECES, (struct umem_cache_args){.reserve = 5});
	size_t n;

	ck_assert_uint_eq(limits(cache).ready, 5);
	ck_assert_uint_eq(cache_live(cache), 0);
	n = exhaust(cache, 0, UMEM_DEFAULT);
	ck_assert_uint_gt(n, 20);
	ck_assert_uint_eq(limits(cache).ready, 5);
	ck_assert_uint_eq(exhaust(cache, n, UMEM_RESERVE), n + 5);
	ck_assert_uint_eq(limits(cache).ready, 0);
	ck_assert_uint_eq(limits(cache).used, 5);
	ck_assert_uint_eq(cache_live(cache), n + 5);
	/* The program frees three objects; they refill the reserve. */
	umem_cache_free_bulk(cache, 3, held + n + 2);
	umem_cache_reap_now(cache);
	fails(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 2, held + n + 2, 0), 0);
	ck_assert_uint_eq(limits(cache).ready, 3);
	ck_assert_uint_eq(exhaust(cache, n + 2, UMEM_RESERVE), n + 5);
	umem_cache_free_bulk(cache, 7, held + n - 2);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(exhaust(cache, n - 2, UMEM_DEFAULT), n);
	ck_assert_uint_eq(limits(cache).ready, 5);
	umem_cache_free_bulk(cache, n, held);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(bulk_requests_take_from_a_reserve)
{
	umem_cache_t *cache = create(
	    (enum kind)_i, PIECES, (struct umem_cache_args){.reserve = 20});
	size_t n = exhaust(cache, 0, UMEM_DEFAULT);

	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 10, held + n, UMEM_DEFAULT), 0);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 21, held + n, UMEM_RESERVE), 0);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 10, held + n, UMEM_RESERVE), 10);
	for (size_t i = n; i < n + 10; i++)
		memset(((struct object *)held[i])->rest, 9, 56);
	ck_assert_uint_eq(limits(cache).ready, 10);
	umem_cache_free_bulk(cache, n + 10, held);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_reserve_survives_every_reap)
{
	umem_cache_t *cache = create((enum kind)_i, 0,
	    (struct umem_cache_args){.reserve = 50,
		.constructor = construct,
		.destructor = destruct});
	uint32_t before = nunmade;

	ck_assert_uint_eq(nmade - nunmade, 50);
	for (int i = 0; i < 5; i++) {
		umem_cache_reap_now(cache);
		ck_assert_int_eq(umem_cache_shrink(cache), 1);
		cache_update(cache, /* may_call */ true);
		umem_reap();
	}
	ck_assert_uint_eq(nunmade, before);
	ck_assert_uint_eq(limits(cache).ready, 50);
	ck_assert_uint_eq(slab_used(&cache->slabs), 50);
	ck_assert_uint_eq(cache_live(cache), 0);
	/* No message appears, because the program holds no object. */
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, nunmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_reserve_changes_its_size)
{
	umem_cache_t *cache =
	    create((enum kind)_i, PIECES, (struct umem_cache_args){0});
	static const size_t sizes[] = {3, 40, 10, 10, 0, 1, 100, 0};
	size_t n;

	for (size_t i = 0; i < array_size(sizes); i++) {
		ck_assert_int_eq(umem_cache_set_reserve(cache, sizes[i]), 0);
		ck_assert_uint_eq(limits(cache).reserve, sizes[i]);
		ck_assert_uint_eq(limits(cache).ready, sizes[i]);
		ck_assert_uint_eq(cache_live(cache), 0);
	}
	ck_assert_int_eq(umem_cache_set_reserve(cache, 4), 0);
	n = exhaust(cache, 0, UMEM_DEFAULT);
	errno = 0;
	ck_assert_int_eq(umem_cache_set_reserve(cache, 5), -1);
	ck_assert_int_eq(errno, ENOMEM);
	errno = 0;
	ck_assert_int_eq(umem_cache_set_reserve(cache, SIZE_MAX / 2), -1);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(limits(cache).reserve, 4);
	ck_assert_uint_eq(limits(cache).ready, 4);
	umem_cache_free_bulk(cache, n, held);
	ck_assert_int_eq(umem_cache_set_reserve(cache, 5), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_reserve_that_was_used_is_filled_to_its_new_size)
{
	umem_cache_t *cache = create(
	    (enum kind)_i, PIECES, (struct umem_cache_args){.reserve = 9});
	size_t n = exhaust(cache, 0, UMEM_RESERVE);

	ck_assert_uint_eq(limits(cache).ready, 0);
	/* No memory is available, but a smaller reserve does not need any. */
	ck_assert_int_eq(umem_cache_set_reserve(cache, 7), 0);
	ck_assert_uint_eq(limits(cache).reserve, 7);
	ck_assert_uint_eq(limits(cache).ready, 0);
	umem_cache_free_bulk(cache, n, held);
	ck_assert_int_eq(umem_cache_set_reserve(cache, 5), 0);
	ck_assert_uint_eq(limits(cache).reserve, 5);
	ck_assert_uint_eq(limits(cache).ready, 5);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, nunmade);
}
END_TEST

START_TEST(a_cache_without_memory_for_its_reserve_is_not_made)
{
	struct umem_cache_args args = {.size = 64, .reserve = 10};

	errno = 0;
	ck_assert_ptr_null(
	    create((enum kind)_i, 1, (struct umem_cache_args){.reserve = 100}));
	ck_assert_int_eq(errno, ENOMEM);
	args.constructor = construct;
	made_most = 5;
	errno = 0;
	ck_assert_ptr_null(umem_cache_create_args("few", &args, sizeof(args)));
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(the_fast_path_is_closed_while_a_reserve_lacks_objects)
{
	umem_cache_t *cache =
	    create(PLAIN, PIECES, (struct umem_cache_args){.reserve = 5});
	size_t n;

	ck_assert_uint_eq(cache_fast_at(cache), cache_header_at(cache));
	n = exhaust(cache, 0, UMEM_DEFAULT);
	ck_assert_uint_eq(cache_fast_at(cache), cache_header_at(cache));
	n = exhaust(cache, n, UMEM_RESERVE);
	ck_assert_uint_eq(cache_fast_at(cache), 0);
	umem_cache_free_bulk(cache, n, held);
	ck_assert_ptr_nonnull(umem_cache_alloc(cache, 0));
	ck_assert_uint_eq(limits(cache).ready, 5);
	ck_assert_uint_eq(cache_fast_at(cache), cache_header_at(cache));
}
END_TEST

START_TEST(a_reserve_does_not_count_and_its_requests_do)
{
	umem_cache_t *cache = create((enum kind)_i, PIECES,
	    (struct umem_cache_args){.reserve = 5, .limit = MOST});
	size_t n;

	ck_assert_uint_eq(limits(cache).in_use, 0);
	n = exhaust(cache, 0, UMEM_DEFAULT);
	ck_assert_uint_eq(limits(cache).in_use, n);
	ck_assert_int_eq(umem_cache_set_limit(cache, n + 3), 0);
	for (int i = 0; i < 3; i++)
		held[n++] = umem_cache_alloc(cache, UMEM_RESERVE);
	errno = 0;
	ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_RESERVE));
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(limits(cache).in_use, n);
	ck_assert_uint_eq(limits(cache).ready, 2);
	umem_cache_free_bulk(cache, n, held);
	ck_assert_uint_eq(limits(cache).in_use, 0);
	umem_cache_destroy(cache);
}
END_TEST

static int ncalls;

static int
never_asked(void)
{
	ncalls++;
	return UMEM_CALLBACK_EXIT(1);
}

START_TEST(a_nofail_request_takes_from_the_reserve_first)
{
	umem_cache_t *cache = create(
	    (enum kind)_i, PIECES, (struct umem_cache_args){.reserve = 5});
	size_t n = exhaust(cache, 0, UMEM_DEFAULT);

	umem_nofail_callback(never_asked);
	for (int i = 0; i < 5; i++)
		ck_assert_ptr_nonnull(
		    umem_cache_alloc(cache, UMEM_RESERVE | UMEM_NOFAIL));
	ck_assert_int_eq(ncalls, 0);
	umem_cache_free_bulk(cache, n, held);
}
END_TEST

/* A stale pointer to an object that is in the reserve now. */
static void
write_to_the_reserve(void)
{
	umem_cache_t *cache =
	    create(GUARDS, PIECES, (struct umem_cache_args){.reserve = 5});

	*(char *)cache->reserve.objects[2] ^= 1;
	exhaust(cache, 0, UMEM_RESERVE);
}

static void
free_of_the_reserve(void)
{
	umem_cache_t *cache = create((enum kind)child_status, PIECES,
	    (struct umem_cache_args){.reserve = 5});

	umem_cache_free(cache, cache->reserve.objects[2]);
}

START_TEST(misuse_of_an_object_in_a_reserve_is_reported)
{
	child_status = _i;
	ck_assert_ptr_nonnull(strstr(child_writes(free_of_the_reserve),
	    "of an object that was not handed out yet"));
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(child_writes(write_to_the_reserve),
	    "modified before it was handed out"));
	ck_assert(child_aborted());
}
END_TEST

static umem_cache_t *shared;

static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	void *mine[60];

	for (int i = 0; i < 1500; i++) {
		int flags;
		size_t n = 0, want;

		x = x * 1664525 + 1013904223;
		flags = (x >> 9) % 2 == 0 ? UMEM_RESERVE : UMEM_DEFAULT;
		want = 1 + (x >> 16) % array_size(mine);
		if ((x >> 12) % 2 == 0)
			n = umem_cache_alloc_bulk(shared, want, mine, flags);
		while (n < want &&
		       (mine[n] = umem_cache_alloc(shared, flags)) != NULL)
			n++;
		for (size_t k = 0; k < n; k++)
			if (__atomic_exchange_n(
				&((struct object *)mine[k])->owner, 1,
				__ATOMIC_RELAXED) != 0)
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
		if (limits(shared).ready > 30)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		for (size_t k = 0; k < n; k++)
			__atomic_store_n(&((struct object *)mine[k])->owner, 0,
			    __ATOMIC_RELAXED);
		umem_cache_free_bulk(shared, n, mine);
	}
	return NULL;
}

START_TEST(no_object_of_a_reserve_has_two_owners)
{
	pthread_t thread[NTHREADS];

	/* About 56 objects exist for threads that want up to 60 each. */
	shared = create((enum kind)_i, 1,
	    (struct umem_cache_args){.reserve = 30,
		.constructor = construct,
		.destructor = destruct});
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_gt(limits(shared).used, 0);
	umem_cache_free(shared, umem_cache_alloc(shared, 0));
	ck_assert_uint_eq(limits(shared).ready, 30);
	ck_assert_uint_eq(cache_live(shared), 0);
	umem_cache_destroy(shared);
	ck_assert_uint_eq(nmade, nunmade);
}
END_TEST

Suite *
reserve_suite(void)
{
	Suite *suite = suite_create("reserve");
	TCase *tcase = tcase_create("reserve");
	const int n = KINDS_OF_CACHE;

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(
	    tcase, a_reserve_serves_requests_that_ask_for_it, 0, n);
	tcase_add_loop_test(tcase, bulk_requests_take_from_a_reserve, 0, n);
	tcase_add_loop_test(tcase, a_reserve_survives_every_reap, 0, n);
	tcase_add_loop_test(tcase, a_reserve_changes_its_size, 0, n);
	tcase_add_loop_test(
	    tcase, a_reserve_that_was_used_is_filled_to_its_new_size, 0, n);
	tcase_add_loop_test(
	    tcase, a_cache_without_memory_for_its_reserve_is_not_made, 0, n);
	tcase_add_test(
	    tcase, the_fast_path_is_closed_while_a_reserve_lacks_objects);
	tcase_add_loop_test(
	    tcase, a_reserve_does_not_count_and_its_requests_do, 0, n);
	tcase_add_loop_test(
	    tcase, a_nofail_request_takes_from_the_reserve_first, 0, n);
	tcase_add_loop_test(tcase, misuse_of_an_object_in_a_reserve_is_reported,
	    GUARDS, KINDS_OF_CACHE);
	tcase_add_loop_test(tcase, no_object_of_a_reserve_has_two_owners, 0, n);
	suite_add_tcase(suite, tcase);
	return suite;
}
