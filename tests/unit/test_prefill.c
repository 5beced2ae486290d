/* test_prefill.c - prefill handles: objects allocated in advance */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "umem/malloc/alloc.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/options.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

#define MOST     3000
#define NTHREADS 4

static void *held[MOST];
static uint32_t nmade, nunmade, nwrong; /* [atomic] */
static uint32_t fail_at; /* the number of the constructor call that fails */

struct object {
	uint32_t magic;
	uint32_t owner; /* [atomic] */
};

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
	(void)priv;
	nwrong += ((struct object *)buf)->magic != 0x6f626a;
	__atomic_add_fetch(&nunmade, 1, __ATOMIC_RELAXED);
}

/* The kinds of caches that allocate by different paths. */
enum kind {
	PLAIN,
	NO_MAGAZINES,
	GUARDS,
	AUDIT,
	FIREWALL,
	KINDS_OF_CACHE
};

static umem_cache_t *
create(enum kind kind, size_t bytes)
{
	static const char *const words[KINDS_OF_CACHE] = {
	    [GUARDS] = "guards", [AUDIT] = "audit", [FIREWALL] = "firewall=1"};
	umem_cache_t *cache;

	/* The class caches are not debugged. */
	ck_assert(umem_ready());
	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	if (words[kind] != NULL)
		options_parse_debug(words[kind]);
	cache = umem_cache_create("filled", bytes, 0, NULL, NULL, NULL, NULL,
	    NULL, kind == NO_MAGAZINES ? UMC_NOMAGAZINE : 0);
	debug.on = false;
	ck_assert_ptr_nonnull(cache);
	ck_assert_int_eq(cache->debug != 0, words[kind] != NULL);
	return cache;
}

static umem_prefill_t *
prefill(umem_cache_t *cache, size_t n)
{
	umem_prefill_t *handle = umem_cache_prefill(cache, n, UMEM_DEFAULT);

	ck_assert_ptr_nonnull(handle);
	ck_assert_uint_eq(umem_prefill_count(handle), n);
	return handle;
}

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a;
	uintptr_t y = (uintptr_t) * (void *const *)b;

	return (x > y) - (x < y);
}

START_TEST(a_handle_hands_out_as_many_objects_as_it_holds)
{
	umem_cache_t *cache = create((enum kind)_i, 40);

	for (size_t n = 1; n <= 400; n = n * 5 / 2 + 1) {
		umem_prefill_t *handle = prefill(cache, n);

		ck_assert_uint_eq(cache_live(cache), n);
		for (size_t i = 0; i < n; i++) {
			held[i] = umem_prefill_alloc(handle);
			ck_assert_ptr_nonnull(held[i]);
			memset(held[i], (int)i, 40);
			ck_assert_uint_eq(
			    umem_prefill_count(handle), n - i - 1);
		}
		ck_assert_uint_eq(cache_live(cache), n);
		qsort(held, n, sizeof(*held), by_address);
		for (size_t i = 1; i < n; i++)
			ck_assert_uint_ge(
			    (uintptr_t)held[i] - (uintptr_t)held[i - 1], 40);
		errno = 0;
		ck_assert_ptr_null(umem_prefill_alloc(handle));
		ck_assert_int_eq(errno, ENOMEM);
		umem_prefill_release(handle);
		umem_cache_free_bulk(cache, n, held);
		ck_assert_uint_eq(cache_live(cache), 0);
	}
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_handle_is_refilled_in_place_and_beyond_its_size)
{
	umem_cache_t *cache = create((enum kind)_i, 64);
	umem_prefill_t *handle = prefill(cache, 0);
	size_t nout = 0;

	for (size_t n = 1; n <= 700; n += 1 + n / 2) {
		for (size_t i = 0; i < n / 3 && umem_prefill_count(handle); i++)
			held[nout++] = umem_prefill_alloc(handle);
		errno = 7;
		ck_assert_int_eq(
		    umem_prefill_refill(handle, n, UMEM_DEFAULT), 0);
		ck_assert_uint_eq(umem_prefill_count(handle), n);
		/* The handle already has as many objects. */
		ck_assert_int_eq(
		    umem_prefill_refill(handle, n / 2, UMEM_DEFAULT), 0);
		ck_assert_uint_eq(umem_prefill_count(handle), n);
		ck_assert_int_eq(errno, 7);
		ck_assert_uint_eq(cache_live(cache), nout + n);
	}
	umem_prefill_release(handle);
	ck_assert_uint_eq(cache_live(cache), nout);
	umem_cache_free_bulk(cache, nout, held);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(objects_stay_constructed_in_a_handle)
{
	umem_cache_t *cache = umem_cache_create("made", sizeof(struct object),
	    0, construct, destruct, NULL, NULL, NULL, 0);

	for (int round = 0; round < 10; round++) {
		umem_prefill_t *handle = prefill(cache, 300);

		for (int i = 0; i < 100; i++) {
			struct object *object = umem_prefill_alloc(handle);

			ck_assert_uint_eq(object->magic, 0x6f626a);
			held[i] = object;
		}
		umem_prefill_release(handle);
		umem_cache_free_bulk(cache, 100, held);
	}
	ck_assert_uint_eq(nmade, 300);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, 300);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_request_that_falls_short_leaves_all_as_it_was)
{
	umem_cache_t *cache = umem_cache_create("made", sizeof(struct object),
	    0, construct, destruct, NULL, NULL, NULL, 0);
	umem_prefill_t *handle;
	size_t used;

	umem_free(umem_alloc(24, 0), 24);
	fail_at = 40;
	errno = 0;
	ck_assert_ptr_null(umem_cache_prefill(cache, 100, UMEM_DEFAULT));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(cache_live(cache), 0);
	handle = prefill(cache, 39);
	used = cache_live(cache);
	for (size_t n = 40; n < 500; n *= 2) {
		errno = 0;
		ck_assert_int_eq(
		    umem_prefill_refill(handle, n, UMEM_DEFAULT), -1);
		ck_assert_int_eq(errno, ENOMEM);
		ck_assert_uint_eq(umem_prefill_count(handle), 39);
		ck_assert_uint_eq(cache_live(cache), used);
	}
	for (int i = 0; i < 39; i++)
		held[i] = umem_prefill_alloc(handle);
	/*
	 * The cache has room for 39 objects; the constructor fails for the
	 * 40th.
	 */
	ck_assert_int_eq(umem_prefill_refill(handle, 30, UMEM_DEFAULT), -1);
	ck_assert_uint_eq(umem_prefill_count(handle), 0);
	umem_cache_free_bulk(cache, 39, held);
	ck_assert_int_eq(umem_prefill_refill(handle, 39, UMEM_DEFAULT), 0);
	umem_prefill_release(handle);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, nunmade);
}
END_TEST

START_TEST(too_many_objects_are_no_memory)
{
	umem_cache_t *cache = create(PLAIN, 64);
	umem_prefill_t *handle = prefill(cache, 1);

	for (size_t n = SIZE_MAX; n > PTRDIFF_MAX / 16; n /= 2) {
		errno = 0;
		ck_assert_ptr_null(umem_cache_prefill(cache, n, UMEM_DEFAULT));
		ck_assert_int_eq(errno, ENOMEM);
		errno = 0;
		ck_assert_int_eq(
		    umem_prefill_refill(handle, n, UMEM_DEFAULT), -1);
		ck_assert_int_eq(errno, ENOMEM);
	}
	ck_assert_uint_eq(umem_prefill_count(handle), 1);
	umem_prefill_release(handle);
	umem_prefill_release(NULL);
	ck_assert_uint_eq(cache_live(cache), 0);
}
END_TEST

START_TEST(requests_fail_at_will_and_handles_do_not)
{
	umem_cache_t *cache = create((enum kind)_i, 64);
	umem_prefill_t *handle = prefill(cache, 10);

	umem_setmtbf(1);
	ck_assert_ptr_null(umem_cache_prefill(cache, 1, UMEM_DEFAULT));
	ck_assert_int_eq(umem_prefill_refill(handle, 11, UMEM_DEFAULT), -1);
	ck_assert_int_eq(umem_prefill_refill(handle, 12, UMEM_NOFAIL), 0);
	for (int i = 0; i < 12; i++) {
		void *object = umem_prefill_alloc(handle);

		ck_assert_ptr_nonnull(object);
		umem_cache_free(cache, object);
	}
	umem_prefill_release(handle);
	handle = umem_cache_prefill(cache, 5, UMEM_NOFAIL);
	ck_assert_uint_eq(umem_prefill_count(handle), 5);
	umem_prefill_release(handle);
	umem_setmtbf(0);
	ck_assert_uint_eq(cache_live(cache), 0);
}
END_TEST

static jmp_buf out;
static size_t live_in_callback, blocks, now;
static umem_cache_t *asked;

static int
leave(void)
{
	live_in_callback = cache_live(asked);
	longjmp(out, 1);
}

START_TEST(nothing_more_is_held_while_the_nofail_callback_runs)
{
	static char memory[4096] __attribute__((aligned(4096)));
	vmem_t *arena = vmem_create("one", memory, sizeof(memory), 4096, NULL,
	    NULL, NULL, 0, VM_NOSLEEP);
	umem_prefill_t *volatile handle;

	asked =
	    umem_cache_create("one", 64, 0, NULL, NULL, NULL, NULL, arena, 0);
	umem_nofail_callback(leave);
	handle = prefill(asked, 5);
	for (int i = 0; i < 20; i++) {
		live_in_callback = 0;
		if (setjmp(out) == 0)
			(void)!umem_cache_prefill(asked, 1000, UMEM_NOFAIL);
		ck_assert_uint_eq(live_in_callback, 5);
		live_in_callback = 0;
		if (setjmp(out) == 0)
			(void)!umem_prefill_refill(handle, 1000, UMEM_NOFAIL);
		ck_assert_uint_eq(live_in_callback, 5);
		ck_assert_uint_eq(umem_prefill_count(handle), 5);
		/* The array of 1000 pointers was freed. */
		if (i == 0)
			blocks =
			    cache_live(class_cache_of(size_class_of(8000)));
		now = cache_live(class_cache_of(size_class_of(8000)));
		ck_assert_uint_eq(now, blocks);
	}
	umem_prefill_release(handle);
	ck_assert_uint_eq(cache_live(asked), 0);
}
END_TEST

static void
destroy_with_a_handle(void)
{
	umem_cache_t *cache = create((enum kind)child_status, 64);
	umem_prefill_t *handle = prefill(cache, 3);

	umem_cache_destroy(cache);
	/* The handle's objects count as in use, so the cache is not empty. */
	memset(umem_prefill_alloc(handle), 1, 64);
	umem_prefill_release(handle);
}

START_TEST(a_cache_that_is_destroyed_before_a_handle_is_reported)
{
	const char *said;

	child_status = _i;
	said = child_writes(destroy_with_a_handle);
	ck_assert_ptr_nonnull(strstr(said, "'filled'"));
	ck_assert_ptr_nonnull(strstr(said, "not empty"));
	ck_assert_ptr_nonnull(strstr(said, "cache was destroyed"));
	ck_assert(child_aborted());
}
END_TEST

static void
use_after_release(void)
{
	umem_prefill_t *handle = prefill(create(PLAIN, 64), 3);
	int use = child_status;

	umem_prefill_release(handle);
	if (use == 0)
		(void)!umem_prefill_alloc(handle);
	else if (use == 1)
		(void)!umem_prefill_refill(handle, 1, 0);
	else
		umem_prefill_release(handle);
}

START_TEST(a_use_of_a_released_handle_is_reported)
{
	child_status = _i;
	ck_assert_ptr_nonnull(
	    strstr(child_writes(use_after_release), "handle was released"));
	ck_assert(child_aborted());
}
END_TEST

/*
 * A stale pointer to an object that a handle holds now.  The handle's second
 * word is the address of its array.
 */
static void *
stale_pointer(umem_prefill_t *handle)
{
	return **((void ***)handle + 1);
}

static void
free_in_a_handle(void)
{
	umem_cache_t *cache = create((enum kind)child_status, 64);
	umem_prefill_t *handle = prefill(cache, 20);

	umem_cache_free(cache, stale_pointer(handle));
}

START_TEST(a_stale_free_of_an_object_in_a_handle_is_reported)
{
	child_status = _i;
	ck_assert_ptr_nonnull(strstr(child_writes(free_in_a_handle),
	    "of an object that was not handed out yet"));
	ck_assert(child_aborted());
}
END_TEST

/* The test sets child_status to the offset of the write before the fork. */
static void
write_in_a_handle(void)
{
	umem_cache_t *cache = create(GUARDS, 64);
	umem_prefill_t *handle;
	int where = child_status;

	handle = prefill(cache, 20);
	((char *)stale_pointer(handle))[where] ^= 1;
	while (umem_prefill_count(handle) != 0)
		(void)!umem_prefill_alloc(handle);
}

START_TEST(a_write_to_an_object_in_a_handle_is_reported)
{
	static const struct {
		int where;
		const char *text;
	} cases[] = {{0, "modified before it was handed out"},
	    {63, "modified before it was handed out"},
	    {64, "redzone violation"}};

	child_status = cases[_i].where;
	ck_assert_ptr_nonnull(
	    strstr(child_writes(write_in_a_handle), cases[_i].text));
	ck_assert(child_aborted());
}
END_TEST

static noinline void *
alloc_here(umem_prefill_t *handle)
{
	void *object = umem_prefill_alloc(handle);

	__asm__ volatile("" : : : "memory");
	return object;
}

static bool
stack_has(const struct bufctl_audit *record, void *(*f)(umem_prefill_t *))
{
	for (unsigned i = 0; i < record->head.depth; i++)
		if (record->stack[i] - (uintptr_t)f < 128)
			return true;
	return false;
}

/* The audit record of the only chunk in use, the lowest of the cache. */
static const struct bufctl_audit *
only_record(const umem_cache_t *cache)
{
	const struct list *list = cache->slabs.partial[SLAB_BINS - 1].next;

	return container_of(list, struct slab, link)->records;
}

START_TEST(the_record_names_the_caller_that_takes_the_object)
{
	umem_cache_t *cache = create(AUDIT, 64);
	umem_prefill_t *handle = prefill(cache, 1);
	const struct bufctl_audit *record = only_record(cache);
	uint64_t then;
	void *object;

	ck_assert_uint_eq(record->head.state, BUFCTL_ALLOCATED);
	ck_assert(!stack_has(record, alloc_here));
	then = record->timestamp;
	object = alloc_here(handle);
	ck_assert_ptr_eq(record->head.addr, object);
	ck_assert(stack_has(record, alloc_here));
	ck_assert_uint_gt(record->timestamp, then);
	umem_cache_free(cache, object);
	umem_prefill_release(handle);
}
END_TEST

static umem_cache_t *shared;

static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	umem_prefill_t *handle = umem_cache_prefill(shared, 10, 0);
	void *mine[600];

	for (int i = 0; i < 2000; i++) {
		size_t n, had = umem_prefill_count(handle);

		x = x * 1664525 + 1013904223;
		n = 1 + (x >> 16) % array_size(mine);
		if (umem_prefill_refill(handle, n, 0) != 0)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		for (size_t k = 0; k < n; k++) {
			struct object *object = umem_prefill_alloc(handle);

			if (__atomic_exchange_n(
				&object->owner, 1, __ATOMIC_RELAXED) != 0)
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
			mine[k] = object;
		}
		for (size_t k = 0; k < n; k++)
			__atomic_store_n(&((struct object *)mine[k])->owner, 0,
			    __ATOMIC_RELAXED);
		umem_cache_free_bulk(shared, n, mine);
		if (had % 7 == 0) {
			umem_prefill_release(handle);
			handle = umem_cache_prefill(shared, n / 2, 0);
		}
		if (i % 500 == 0)
			umem_cache_reap_now(shared);
	}
	umem_prefill_release(handle);
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
prefill_suite(void)
{
	Suite *suite = suite_create("prefill");
	TCase *tcase = tcase_create("prefill");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase,
	    a_handle_hands_out_as_many_objects_as_it_holds, 0, KINDS_OF_CACHE);
	tcase_add_loop_test(tcase,
	    a_handle_is_refilled_in_place_and_beyond_its_size, 0,
	    KINDS_OF_CACHE);
	tcase_add_test(tcase, objects_stay_constructed_in_a_handle);
	tcase_add_test(tcase, a_request_that_falls_short_leaves_all_as_it_was);
	tcase_add_test(tcase, too_many_objects_are_no_memory);
	tcase_add_loop_test(
	    tcase, requests_fail_at_will_and_handles_do_not, 0, KINDS_OF_CACHE);
	tcase_add_test(
	    tcase, nothing_more_is_held_while_the_nofail_callback_runs);
	tcase_add_loop_test(tcase,
	    a_cache_that_is_destroyed_before_a_handle_is_reported, 0,
	    KINDS_OF_CACHE);
	tcase_add_loop_test(
	    tcase, a_use_of_a_released_handle_is_reported, 0, 3);
	tcase_add_loop_test(tcase,
	    a_stale_free_of_an_object_in_a_handle_is_reported, GUARDS,
	    KINDS_OF_CACHE);
	tcase_add_loop_test(
	    tcase, a_write_to_an_object_in_a_handle_is_reported, 0, 3);
	tcase_add_test(
	    tcase, the_record_names_the_caller_that_takes_the_object);
	tcase_add_test(tcase, no_object_has_two_owners);
	suite_add_tcase(suite, tcase);
	return suite;
}
