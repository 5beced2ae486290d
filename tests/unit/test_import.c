/* test_import.c - import caches: objects are resources that are not memory */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "tests/unit/hooks.h"
#include "tests/unit/machine.h"
#include "tests/unit/stay.h"
#include "umem/cache/cache.h"
#include "umem/cache/import.h"
#include "umem/debug/debug.h"
#include "umem/umem.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define MOST     20000
#define NTHREADS 4

/*
 * The source hands out the numbers from 1 on.  A resource that exists is either
 * idle in the cache or held by the program.  is_out[] marks the resources that
 * the program holds.
 */
static struct {
	pthread_mutex_t lock;
	bool exists[MOST + 1];
	size_t free[MOST];
	size_t nfree;
	size_t last;    /* highest number given so far */
	size_t limit;   /* on existing resources */
	size_t deliver; /* most resources for one call */
	size_t nexist;
	size_t nexist_most;
	size_t nimports;
	size_t nreleased;
	size_t largest; /* largest n of a call */
	int error;      /* import() leaves it in errno */
	bool wrong;
} source = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = MOST, .deliver = MOST};

static void *held[MOST];
static uint32_t is_out[MOST + 1]; /* [atomic] */
static umem_cache_t *other;

/* The threads that use the source may find errors at the same time. */
static void
wrong_if(bool is_wrong)
{
	if (is_wrong)
		__atomic_store_n(&source.wrong, true, __ATOMIC_RELAXED);
}

static size_t
import(void *arg, void **store, size_t n, int flags)
{
	size_t got = 0;

	if (other != NULL)
		umem_cache_free(other, umem_cache_alloc(other, UMEM_DEFAULT));
	pthread_mutex_lock(&source.lock);
	wrong_if(arg != &source || flags != UMEM_DEFAULT || n == 0);
	source.nimports++;
	if (n > source.largest)
		source.largest = n;
	while (
	    got < n && got < source.deliver && source.nexist < source.limit) {
		size_t id = source.nfree != 0 ? source.free[--source.nfree]
					      : ++source.last;

		wrong_if(source.exists[id]);
		source.exists[id] = true;
		source.nexist++;
		store[got++] = (void *)id;
	}
	if (source.nexist > source.nexist_most)
		source.nexist_most = source.nexist;
	pthread_mutex_unlock(&source.lock);
	errno = source.error;
	return got;
}

static void
release(void *arg, void *const *store, size_t n)
{
	if (other != NULL)
		umem_cache_free(other, umem_cache_alloc(other, UMEM_DEFAULT));
	pthread_mutex_lock(&source.lock);
	wrong_if(arg != &source || n == 0 || n > 64);
	for (size_t i = 0; i < n; i++) {
		size_t id = (size_t)store[i];

		wrong_if(id > MOST || !source.exists[id] || is_out[id]);
		source.exists[id] = false;
		source.free[source.nfree++] = id;
	}
	source.nexist -= n;
	source.nreleased += n;
	pthread_mutex_unlock(&source.lock);
	errno = EBADF;
}

static umem_cache_t *
create(size_t max_idle, int cflags)
{
	umem_cache_t *cache = umem_import_cache_create(
	    "import", import, release, &source, max_idle, cflags);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/*
 * A cache whose imports the test counts: the thread finds all idle resources,
 * because it never leaves the CPU that has them in its magazines.
 */
static umem_cache_t *
create_here(size_t max_idle, int cflags)
{
	umem_cache_t *cache = create(max_idle, cflags);

	stay_here();
	return cache;
}

static void *
get(umem_cache_t *cache)
{
	void *resource = umem_cache_alloc(cache, UMEM_DEFAULT);

	if (resource != NULL)
		wrong_if(__atomic_exchange_n(&is_out[(size_t)resource], 1,
			     __ATOMIC_RELAXED) != 0);
	return resource;
}

static void
put(umem_cache_t *cache, void *resource)
{
	wrong_if(__atomic_exchange_n(
		     &is_out[(size_t)resource], 0, __ATOMIC_RELAXED) != 1);
	umem_cache_free(cache, resource);
}

static void
get_many(umem_cache_t *cache, unsigned n)
{
	unsigned nnone = 0;

	for (unsigned i = 0; i < n; i++)
		nnone += (held[i] = get(cache)) == NULL;
	ck_assert_uint_eq(nnone, 0);
}

static void
put_many(umem_cache_t *cache, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put(cache, held[i]);
}

/*
 * Check that every resource was released once, and never while the program held
 * it.
 */
static void
end(umem_cache_t *cache)
{
	/* Every call that was in transit has ended. */
	ck_assert_uint_eq(cache->import->ncalls, 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(source.nexist, 0);
	ck_assert(!source.wrong);
}

START_TEST(a_resource_is_imported_once_and_used_again)
{
	umem_cache_t *cache = create_here(0, 0);

	ck_assert_str_eq(umem_cache_name(cache), "import");
	ck_assert_uint_eq(umem_cache_size(cache), 0);
	for (int i = 0; i < 1000; i++) {
		void *resource = get(cache);

		ck_assert_ptr_eq(resource, (void *)1);
		put(cache, resource);
	}
	ck_assert_uint_eq(source.nimports, 1);
	ck_assert_uint_eq(source.largest, 1);
	ck_assert_uint_eq(source.nreleased, 0);
	end(cache);
	ck_assert_uint_eq(source.nreleased, 1);
}
END_TEST

START_TEST(imports_grow_with_use)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, 10);
	ck_assert_uint_le(source.largest, 16);
	put_many(cache, 10);
	get_many(cache, 5000);
	ck_assert_uint_gt(source.largest, 4);
	ck_assert_uint_le(source.largest, 64);
	ck_assert_uint_le(source.nexist, 5000 + 64);
	ck_assert_uint_lt(source.nimports, 1000);
	put_many(cache, 5000);
	end(cache);
}
END_TEST

START_TEST(an_import_may_deliver_fewer)
{
	umem_cache_t *cache = create_here(0, 0);

	source.deliver = 1;
	get_many(cache, 500);
	ck_assert_uint_eq(source.nexist, 500);
	put_many(cache, 500);
	get_many(cache, 500);
	ck_assert_uint_eq(source.nexist, 500);
	put_many(cache, 500);
	end(cache);
}
END_TEST

START_TEST(errno_says_why_an_import_failed)
{
	umem_cache_t *cache = create(0, _i ? UMC_NOMAGAZINE : 0);
	void *two[2];

	source.limit = 1;
	source.error = EMFILE;
	errno = 0;
	held[0] = get(cache);
	ck_assert_int_eq(errno, 0);
	ck_assert_ptr_null(get(cache));
	ck_assert_int_eq(errno, EMFILE);
	source.error = 0;
	ck_assert_ptr_null(get(cache));
	ck_assert_int_eq(errno, ENOMEM);
	put(cache, held[0]);
	source.error = ENFILE;
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 2, two, UMEM_DEFAULT), 0);
	ck_assert_int_eq(errno, ENFILE);
	ck_assert_uint_gt(cache->nfailed, 0);
	/* The resource that the failed call had taken is idle again. */
	errno = 0;
	ck_assert_ptr_nonnull((held[0] = get(cache)));
	ck_assert_int_eq(errno, 0);
	put(cache, held[0]);
	end(cache);
}
END_TEST

START_TEST(errno_is_left_alone_by_what_succeeds)
{
	umem_cache_t *cache = create(0, 0);
	void *many[100];

	source.error = EMFILE;
	errno = ERANGE;
	get_many(cache, 300);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 100, many, UMEM_DEFAULT), 100);
	umem_cache_free_bulk(cache, 100, many);
	put_many(cache, 300);
	umem_cache_reap_now(cache);
	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	ck_assert_int_eq(errno, ERANGE);
	end(cache);
	cache = create(8, 0);
	errno = ERANGE;
	get_many(cache, 300);
	put_many(cache, 300);
	ck_assert_int_eq(errno, ERANGE);
	end(cache);
}
END_TEST

static unsigned ncallbacks;
static umem_cache_t *nofail_cache;

static int
nofail(void)
{
	if (ncallbacks++ != 0)
		return UMEM_CALLBACK_EXIT(1);
	put(nofail_cache, held[0]);
	return UMEM_CALLBACK_RETRY;
}

START_TEST(a_nofail_request_asks_the_callback)
{
	umem_cache_t *cache = nofail_cache = create(0, 0);
	void *resource;

	source.limit = 1;
	held[0] = get(cache);
	umem_nofail_callback(nofail);
	resource = umem_cache_alloc(cache, UMEM_NOFAIL);
	ck_assert_ptr_eq(resource, held[0]);
	ck_assert_uint_eq(ncallbacks, 1);
	umem_cache_free(cache, resource);
	end(cache);
}
END_TEST

START_TEST(a_free_calls_no_function_of_the_program)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, MOST);
	put_many(cache, MOST);
	ck_assert_uint_eq(source.nreleased, 0);
	/*
	 * An update inside malloc() or free() does not call a function of the
	 * program either.
	 */
	ck_assert(!cache_update(cache, /* may_call */ false));
	ck_assert(!cache_reclaim_idle(cache));
	ck_assert_uint_eq(cache_flush_depot(cache), 0);
	ck_assert_uint_eq(source.nreleased, 0);
	get_many(cache, MOST);
	ck_assert_uint_eq(source.nexist_most, MOST);
	put_many(cache, MOST);
	end(cache);
	ck_assert_uint_eq(source.nreleased, MOST);
}
END_TEST

START_TEST(an_update_in_malloc_releases_nothing)
{
	umem_cache_t *cache = create(1000, 0);
	size_t nreleased;

	get_many(cache, 3000);
	put_many(cache, 3000);
	nreleased = source.nreleased;
	/* Such an update would only move magazines to a pool that is full. */
	for (int i = 0; i < 5; i++)
		ck_assert(!cache_update(cache, /* may_call */ false));
	ck_assert_uint_eq(source.nreleased, nreleased);
	for (int i = 0; i < 5; i++)
		cache_update(cache, /* may_call */ true);
	ck_assert_uint_eq(source.nexist, 0);
	end(cache);
}
END_TEST

START_TEST(updates_release_what_was_not_used)
{
	umem_cache_t *cache = create_here(0, 0);
	size_t kept;

	get_many(cache, 10000);
	put_many(cache, 10000);
	/*
	 * The cache keeps about as many resources as are used between updates:
	 * 100.
	 */
	for (int i = 0; i < 20; i++) {
		get_many(cache, 100);
		put_many(cache, 100);
		cache_update(cache, /* may_call */ true);
	}
	kept = source.nexist;
	ck_assert_uint_ge(kept, 100);
	ck_assert_uint_lt(kept, 2000);
	get_many(cache, 100);
	ck_assert_uint_eq(source.nexist, kept);
	put_many(cache, 100);
	for (int i = 0; i < 20; i++)
		cache_update(cache, /* may_call */ true);
	ck_assert_uint_eq(source.nexist, 0);
	ck_assert(!cache_update(cache, /* may_call */ true));
	end(cache);
}
END_TEST

START_TEST(updates_keep_what_the_pool_was_asked_for)
{
	umem_cache_t *cache = create(0, UMC_NOMAGAZINE);
	size_t nimports;

	get_many(cache, 300);
	put_many(cache, 300);
	nimports = source.nimports;
	for (int i = 0; i < 10; i++) {
		get_many(cache, 100);
		put_many(cache, 100);
		ck_assert(cache_update(cache, /* may_call */ true));
	}
	ck_assert_uint_eq(source.nimports, nimports);
	ck_assert_uint_eq(source.nexist, 100);
	end(cache);
}
END_TEST

START_TEST(a_reap_releases_everything_idle)
{
	umem_cache_t *cache = create(0, _i ? UMC_NOMAGAZINE : 0);

	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	get_many(cache, 1000);
	put_many(cache, 1000);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(source.nexist, 0);
	get_many(cache, 300);
	for (int i = 100; i < 300; i++)
		put(cache, held[i]);
	ck_assert_int_eq(umem_cache_shrink(cache), 1);
	ck_assert_uint_eq(source.nexist, 100);
	ck_assert_uint_eq(cache_live(cache), 100);
	put_many(cache, 100);
	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	ck_assert_uint_eq(source.nexist, 0);
	end(cache);
}
END_TEST

/* Limits.  A cache of 1 to 7 resources per CPU has no magazines. */
static const size_t limits[] = {1, 2, 7, 8, 15, 16, 40, 64, 100, 1000, 5000};

START_TEST(no_more_stay_idle_than_the_program_allows)
{
	size_t max_idle = limits[_i / 2];
	umem_cache_t *cache = create(max_idle, _i % 2 ? UMC_NOMAGAZINE : 0);
	unsigned n = 0, seed = 1;
	size_t idle_most = 0;

	ck_assert(!(_i % 2 && cache->has_magazines));
	for (int i = 0; i < 20; i++) {
		unsigned want = (unsigned)rand_r(&seed) % 12000;
		void *some[300];

		while (n < want) {
			held[n++] = get(cache);
			if (source.nexist - n > idle_most)
				idle_most = source.nexist - n;
		}
		while (n > want) {
			put(cache, held[--n]);
			if (source.nexist - n > idle_most)
				idle_most = source.nexist - n;
		}
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 300, some, UMEM_DEFAULT), 300);
		umem_cache_free_bulk(cache, 300, some);
		ck_assert_uint_le(source.nexist - n, max_idle);
		ck_assert_uint_le(idle_most, max_idle);
	}
	put_many(cache, n);
	ck_assert_uint_le(source.nexist, max_idle);
	ck_assert_uint_ge(source.nexist, max_idle / 4);
	end(cache);
}
END_TEST

START_TEST(resources_within_the_limit_are_used_again)
{
	umem_cache_t *cache = create_here(1000, 0);
	size_t nimports;

	get_many(cache, 500);
	put_many(cache, 500);
	nimports = source.nimports;
	for (int i = 0; i < 100; i++) {
		get_many(cache, 450);
		put_many(cache, 450);
	}
	ck_assert_uint_eq(source.nimports, nimports);
	ck_assert_uint_eq(source.nreleased, 0);
	end(cache);
}
END_TEST

START_TEST(bulk_calls_move_resources)
{
	umem_cache_t *cache = create_here(0, _i ? UMC_NOMAGAZINE : 0);

	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 3000, held, UMEM_DEFAULT), 3000);
	ck_assert_uint_eq(source.nexist, 3000);
	umem_cache_free_bulk(cache, 3000, held);
	get_many(cache, 3000);
	ck_assert_uint_eq(source.nexist, 3000);
	put_many(cache, 3000);
	source.limit = 3000;
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 3001, held, UMEM_DEFAULT), 0);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 3000, held, UMEM_DEFAULT), 3000);
	held[3000] = NULL;
	umem_cache_free_bulk(cache, 3001, held);
	ck_assert_uint_eq(source.nexist, 3000);
	end(cache);
}
END_TEST

START_TEST(callbacks_may_use_other_caches)
{
	umem_cache_t *cache = create(16, 0);

	other =
	    umem_cache_create("other", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	get_many(cache, 1000);
	put_many(cache, 1000);
	umem_cache_reap_now(cache);
	end(cache);
	umem_cache_destroy(other);
}
END_TEST

START_TEST(an_import_cache_has_no_zeros)
{
	umem_cache_t *cache = create(0, 0);

	errno = 0;
	ck_assert_ptr_null(umem_cache_zalloc(cache, UMEM_DEFAULT));
	ck_assert_int_eq(errno, EINVAL);
	end(cache);
}
END_TEST

START_TEST(wrong_arguments_are_invalid)
{
	static const int wrong[] = {
	    1, UMC_NOHASH, UMC_QCACHE, UMC_INTERNAL, -1};

	for (unsigned i = 0; i < array_size(wrong); i++) {
		errno = 0;
		ck_assert_ptr_null(umem_import_cache_create(
		    "wrong", import, release, NULL, 0, wrong[i]));
		ck_assert_int_eq(errno, EINVAL);
	}
	errno = 0;
	ck_assert_ptr_null(
	    umem_import_cache_create(NULL, import, release, NULL, 0, 0));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(
	    umem_import_cache_create("wrong", NULL, release, NULL, 0, 0));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(
	    umem_import_cache_create("wrong", import, NULL, NULL, 0, 0));
	ck_assert_int_eq(errno, EINVAL);
	umem_cache_destroy(create(0, UMC_NOTOUCH | UMC_NODEBUG));
}
END_TEST

/* The pool takes at most 16 bytes for each resource, and a little more. */
START_TEST(a_cache_takes_little_memory_and_leaves_none)
{
	size_t used, with_cache;
	umem_cache_t *cache;

	end(create(0, UMC_NOMAGAZINE));
	used = meta_used();
	cache = create(0, UMC_NOMAGAZINE);
	with_cache = meta_used();
	get_many(cache, MOST);
	ck_assert_uint_ge(meta_used(), with_cache + MOST * sizeof(void *));
	ck_assert_uint_le(meta_used(), with_cache + MOST * 20);
	put_many(cache, MOST);
	end(cache);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(a_free_needs_no_memory)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, MOST);
	os_fail_nth(1, 1u << 30);
	put_many(cache, MOST);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(source.nreleased, 0);
	end(cache);
	ck_assert_uint_eq(source.nreleased, MOST);
}
END_TEST

START_TEST(without_memory_for_itself_an_allocation_fails)
{
	umem_cache_t *cache = create(0, 0);
	unsigned n = 0;

	os_fail_nth(1, 1u << 30);
	errno = 0;
	while (n < MOST && (held[n] = get(cache)) != NULL)
		n++;
	os_fail_nth(0, 0);
	/* A pool of MOST resources needs more memory than was mapped. */
	ck_assert_uint_lt(n, MOST);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_nonnull((held[n] = get(cache)));
	put_many(cache, n + 1);
	end(cache);
}
END_TEST

static char *block;
static size_t nblock;

static size_t
import_of_block(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)flags;
	for (size_t i = 0; i < n; i++)
		store[i] = block + nblock++;
	return n;
}

static void
release_of_block(void *arg, void *const *store, size_t n)
{
	(void)arg;
	(void)store;
	nblock -= n;
}

START_TEST(resources_may_equal_addresses_of_the_heap)
{
	umem_cache_t *cache = umem_import_cache_create(
	    "block", import_of_block, release_of_block, NULL, 0, 0);

	/*
	 * Use the address of a freed block, and handles that never were
	 * objects.
	 */
	block = umem_alloc(64, UMEM_DEFAULT);
	umem_free(block, 64);
	for (int i = 0; i < 5000; i++)
		held[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < 5000; i++)
		umem_cache_free(cache, held[i]);
	ck_assert_uint_eq(cache_depot_bytes(cache), 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nblock, 0);
}
END_TEST

/* Threads */

static umem_cache_t *shared;
static unsigned each; /* most resources that a thread holds */
static uint32_t nfailed;

static void *
hold_some(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	void *mine[64];
	unsigned n = 0;

	for (int i = 0; i < 20000; i++) {
		if (n < each && rand_r(&seed) % 2 == 0) {
			mine[n] = get(shared);
			if (mine[n] == NULL)
				__atomic_add_fetch(
				    &nfailed, 1, __ATOMIC_RELAXED);
			else
				n++;
		} else if (n > 0) {
			put(shared, mine[--n]);
		}
		if (rand_r(&seed) % 4096 == 0)
			umem_cache_reap_now(shared);
		if (rand_r(&seed) % 64 == 0)
			sched_yield();
	}
	while (n > 0)
		put(shared, mine[--n]);
	return NULL;
}

/*
 * The source has exactly as many resources as all threads together may hold.
 * So whenever a thread asks for a resource, at least one is idle somewhere.
 */
START_TEST(a_request_fails_only_if_nothing_is_idle)
{
	static const size_t idle[] = {0, 1000, 3};
	pthread_t thread[NTHREADS];

	each = _i < 3 ? 2 : 40;
	source.limit = each * NTHREADS;
	shared = create(idle[_i % 3], 0);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, hold_some, (void *)(i + 1));
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nfailed, 0);
	ck_assert_uint_le(source.nexist_most, source.limit);
	end(shared);
}
END_TEST

/*
 * A thread has taken a batch from the pool and has not yet put it into a
 * magazine.  The requests of another thread wait at the gate for that, and then
 * find all idle resources but one.
 */

static uint32_t in_hand, ended; /* [atomic] */
static unsigned nfound;

static void *
get_meanwhile(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&in_hand, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	errno = 0;
	while ((held[nfound + 1] = get(shared)) != NULL) {
		nfound++;
		/*
		 * The request succeeded, so errno is 0 although import()
		 * failed.
		 */
		wrong_if(errno != 0);
	}
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void
stay_with_batch(void)
{
	hook_magazine_install = NULL;
	__atomic_store_n(&in_hand, 1, __ATOMIC_RELEASE);
	while (
	    __atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 0 &&
	    __atomic_load_n(&shared->import->gate.state, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
}

START_TEST(a_request_finds_what_another_thread_has_in_hand)
{
	pthread_t thread;

	shared = create(0, 0);
	get_many(shared, 4);
	source.limit = source.nexist;
	source.error = EMFILE;
	put_many(shared, 4);
	/* Move all resources to the pool. */
	cache_drain(shared, false);
	pthread_create(&thread, NULL, get_meanwhile, NULL);
	hook_magazine_install = stay_with_batch;
	held[0] = get(shared);
	ck_assert_ptr_null(hook_magazine_install);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(nfound + 1, source.nexist);
	put_many(shared, nfound + 1);
	end(shared);
}
END_TEST

/* An import() that blocks in one thread until the test lets it continue. */

static uint32_t is_inside, goes_on; /* [atomic] */

static size_t
import_slowly(void *arg, void **store, size_t n, int flags)
{
	size_t got = import(arg, store, n, flags);

	if (n > 1 && got != 0) {
		__atomic_store_n(&is_inside, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&goes_on, __ATOMIC_ACQUIRE) == 0)
			usleep(1000);
	}
	return got;
}

static void *
take_one(void *arg)
{
	(void)arg;
	/* The first import() is for one resource, the second for more. */
	held[0] = get(shared);
	held[1] = get(shared);
	return NULL;
}

static void
do_nothing(int signal)
{
	(void)signal;
}

/* Signals do not end the wait of the thread whose pthread_t is at arg. */
static void *
tell_later(void *arg)
{
	while (
	    __atomic_load_n(&shared->import->nwaiting, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	for (int i = 0; i < 3; i++) {
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
		usleep(1000);
	}
	__atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void
create_slow(void)
{
	source.limit = 3;
	shared = umem_import_cache_create(
	    "slow", import_slowly, release, &source, 0, 0);
	ck_assert_ptr_nonnull(shared);
}

START_TEST(a_request_waits_for_resources_in_transit)
{
	pthread_t thread[2], self = pthread_self();

	signal(SIGUSR1, do_nothing);
	create_slow();
	pthread_create(&thread[0], NULL, take_one, NULL);
	while (__atomic_load_n(&is_inside, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	pthread_create(&thread[1], NULL, tell_later, &self);
	/* The other thread has all three resources and needs two. */
	held[2] = get(shared);
	ck_assert_ptr_nonnull(held[2]);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	put_many(shared, 3);
	end(shared);
}
END_TEST

START_TEST(a_request_waits_for_no_call_that_does_not_end)
{
	pthread_t thread;

	create_slow();
	pthread_create(&thread, NULL, take_one, NULL);
	while (__atomic_load_n(&is_inside, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	source.error = EMFILE;
	ck_assert_ptr_null(get(shared));
	ck_assert_int_eq(errno, EMFILE);
	__atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	put_many(shared, 2);
	end(shared);
}
END_TEST

static bool child_waited;

static void
note_wait(const uint32_t *word)
{
	child_waited |= word == &shared->import->nends;
}

START_TEST(a_child_waits_for_no_call_of_its_parent)
{
	pthread_t thread;
	pid_t child;
	int status;

	create_slow();
	pthread_create(&thread, NULL, take_one, NULL);
	while (__atomic_load_n(&is_inside, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	child = fork();
	if (child == 0) {
		hook_os_futex_wait = note_wait;
		_exit(get(shared) == NULL && !child_waited ? 0 : 1);
	}
	waitpid(child, &status, 0);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	__atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	put_many(shared, 2);
	end(shared);
}
END_TEST

/* An import() that forks, in a process with two threads. */

static bool forks;
static pid_t forked;

static size_t
import_forking(void *arg, void **store, size_t n, int flags)
{
	if (forks && n > 1) {
		forks = false;
		forked = fork();
	}
	return import(arg, store, n, flags);
}

static void *
wait_to_go_on(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&goes_on, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	return NULL;
}

START_TEST(a_call_may_fork)
{
	umem_cache_t *cache = umem_import_cache_create(
	    "forking", import_forking, release, &source, 0, 0);
	pthread_t thread;
	int status;

	pthread_create(&thread, NULL, wait_to_go_on, NULL);
	forks = true;
	get_many(cache, 10);
	ck_assert(!forks);
	if (forked == 0) {
		put_many(cache, 10);
		_exit(
		    cache->import->ncalls == 0 && umem_cache_shrink(cache) == 0
			? 0
			: 1);
	}
	waitpid(forked, &status, 0);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_uint_eq(cache->import->ncalls, 0);
	__atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	put_many(cache, 10);
	end(cache);
}
END_TEST

/* The two ways to create a cache with checks. */
static void
have_checks(int how)
{
	/* The library has already read its options. */
	umem_free(umem_alloc(1, UMEM_DEFAULT), 1);
	debug.on = true;
	if (how == 0) {
		debug.hardened = true;
		return;
	}
	debug.choice[0].flags = UMF_REDZONE;
	strcpy(debug.choice[0].patterns, "imp*");
	debug.nchoices = 1;
}

/* Reserves */

START_TEST(a_reserve_works_on_resources)
{
	umem_cache_t *cache;

	if (_i == 2)
		have_checks(0);
	cache = create(_i == 1 ? 3 : 0, 0);
	/* Blocks have no checks, because their caches exist. */
	debug.on = false;
	errno = 0;
	ck_assert_int_eq(umem_cache_set_limit(cache, 20), -1);
	ck_assert_int_eq(errno, ENOTSUP);

	source.limit = 10;
	ck_assert_int_eq(umem_cache_set_reserve(cache, 4), 0);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(source.nexist, 4);
	get_many(cache, 6);
	source.error = EMFILE;
	ck_assert_ptr_null(get(cache));
	ck_assert_int_eq(errno, EMFILE);
	held[6] = umem_cache_alloc(cache, UMEM_RESERVE);
	ck_assert_ptr_nonnull(held[6]);
	umem_cache_free(cache, held[6]);
	put_many(cache, 6);
	ck_assert_int_eq(umem_cache_set_reserve(cache, 0), 0);

	ck_assert_int_eq(umem_cache_set_reserve(cache, 4), 0);
	end(cache);
}
END_TEST

/* Misuse */

static void
free_twice_apart(void)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, 1000);
	umem_cache_free(cache, held[0]);
	for (int i = 500; i < 1000; i++)
		umem_cache_free(cache, held[i]);
	umem_cache_free(cache, held[0]);
}

static void
free_twice_at_once(void)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, 10);
	umem_cache_free(cache, held[5]);
	umem_cache_free(cache, held[5]);
}

static void
free_foreign(void)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, 10);
	umem_cache_free(cache, (void *)12345);
}

/* Nothing was imported yet. */
static void
free_foreign_first(void)
{
	umem_cache_free(create(0, 0), (void *)12345);
}

static void
free_too_many(void)
{
	umem_cache_t *cache = create(0, UMC_NOMAGAZINE);

	get_many(cache, 1);
	umem_cache_free(cache, held[0]);
	umem_cache_free(cache, held[0]);
}

START_TEST(misuse_is_reported)
{
	ck_assert_ptr_nonnull(strstr(child_writes(free_twice_at_once),
	    "umem: umem_cache_free(import, 0x"));
	ck_assert_ptr_nonnull(strstr(child_text, ": block freed twice\n"));
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(child_writes(free_too_many),
	    "umem: umem_cache_free(import, 0x1): block freed twice\n"));
	ck_assert(child_aborted());
	/* A cache without checks does not notice this second free. */
	child_writes(free_twice_apart);
	ck_assert(child_exited(0));
}
END_TEST

static size_t
import_null(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)n;
	(void)flags;
	store[0] = NULL;
	return 1;
}

static size_t
import_too_many(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)flags;
	store[0] = (void *)1;
	return n + 1;
}

static size_t
import_same(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)n;
	(void)flags;
	store[0] = (void *)7;
	return 1;
}

static umem_import_t *bad_import;

static void
use_bad_import(void)
{
	umem_cache_t *cache =
	    umem_import_cache_create("bad", bad_import, release, NULL, 0, 0);

	held[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	held[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
}

START_TEST(an_import_that_is_wrong_is_reported)
{
	bad_import = import_null;
	ck_assert_str_eq(child_writes_first(use_bad_import),
	    "umem: import of 'bad' delivered NULL\n");
	ck_assert(child_aborted());
	bad_import = import_too_many;
	ck_assert_str_eq(child_writes_first(use_bad_import),
	    "umem: import of 'bad' delivered 2 resources instead of 1\n");
	ck_assert(child_aborted());
	bad_import = import_same;
	child_writes(use_bad_import);
	ck_assert(child_exited(0));
	have_checks(0);
	ck_assert_str_eq(child_writes_first(use_bad_import),
	    "umem: import of 'bad' delivered 0x7 twice\n");
	ck_assert(child_aborted());
}
END_TEST

static sigjmp_buf after_report;

static void
leave(int signal)
{
	(void)signal;
	siglongjmp(after_report, 1);
}

/* A program that leaves a report by longjmp() can use the cache. */
START_TEST(a_report_of_a_wrong_free_or_import_holds_no_lock)
{
	umem_cache_t *cache;

	if (_i == 1)
		have_checks(0);
	cache = umem_import_cache_create("bad", _i == 0 ? import : import_same,
	    release, &source, 0, UMC_NOMAGAZINE);
	signal(SIGABRT, leave);
	if (sigsetjmp(after_report, /* savesigs */ 1) == 0) {
		if (_i == 0)
			umem_cache_free(cache, (void *)12345);
		for (int i = 0; i < 2; i++)
			held[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		ck_abort_msg("no report");
	}
	ck_assert_uint_eq(cache->import->gate.state, 0);
	ck_assert_uint_eq(cache->slabs.lock.state, 0);
}
END_TEST

static void
destroy_with_three_out(void)
{
	umem_cache_t *cache = create(0, 0);

	get_many(cache, 100);
	for (int i = 3; i < 100; i++)
		put(cache, held[i]);
	umem_cache_destroy(cache);
	if (source.nexist != 3)
		_exit(1);
	umem_cache_free(cache, held[0]);
}

START_TEST(destroying_a_cache_in_use_is_reported)
{
	ck_assert_ptr_nonnull(strstr(child_writes(destroy_with_three_out),
	    "umem: umem_cache_destroy: 'import' (0x"));
	ck_assert_ptr_nonnull(
	    strstr(child_text, ") not empty\numem: 3 objects in use\n"));
	ck_assert_ptr_nonnull(strstr(child_text,
	    "umem: umem_cache_free(import): cache was destroyed\n"));
	ck_assert(child_aborted());
}
END_TEST

START_TEST(with_checks_every_second_free_is_reported)
{
	have_checks(_i);
	ck_assert_str_eq(child_writes_first(free_twice_apart),
	    "umem: umem_cache_free(import, 0x1): block freed twice\n");
	ck_assert(child_aborted());
	ck_assert_str_eq(child_writes_first(free_foreign),
	    "umem: umem_cache_free(import, 0x3039): object of another cache\n");
	ck_assert(child_aborted());
	ck_assert_str_eq(child_writes_first(free_foreign_first),
	    "umem: umem_cache_free(import, 0x3039): object of another cache\n");
	ck_assert(child_aborted());
}
END_TEST

static const umem_cache_t *checked;
static unsigned nheld; /* when the lock of the cache was last released */

static void
count_held(struct lock *lock)
{
	const struct pointer_set *set = &checked->import->arrays.held;

	if (lock != &checked->slabs.lock)
		return;
	nheld = 0;
	for (size_t i = 0; i < set->size; i++)
		nheld += set->slot[i] != NULL;
}

START_TEST(checks_record_a_resource_before_the_lock_is_released)
{
	umem_cache_t *cache;

	have_checks(0);
	checked = cache = create(0, 0);
	hook_lock_released = count_held;
	held[0] = get(cache);
	ck_assert_uint_eq(nheld, 1);
	put(cache, held[0]);
	ck_assert_uint_eq(nheld, 0);
	hook_lock_released = NULL;
	end(cache);
}
END_TEST

START_TEST(with_checks_everything_works)
{
	umem_cache_t *cache;
	unsigned seed = 1;

	have_checks(_i % 2);
	cache = create(_i < 2 ? 0 : 100, 0);
	ck_assert(!cache->has_magazines);
	ck_assert(cache->import->checked);
	for (int i = 0; i < 20; i++) {
		unsigned n = (unsigned)rand_r(&seed) % 3000;

		get_many(cache, n);
		for (unsigned j = n; j > 1; j--) {
			unsigned k = (unsigned)rand_r(&seed) % j;
			void *swap = held[j - 1];

			held[j - 1] = held[k];
			held[k] = swap;
		}
		put_many(cache, n);
		if (i % 4 == 0)
			umem_cache_reap_now(cache);
	}
	source.limit = 100;
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 101, held, UMEM_DEFAULT), 0);
	ck_assert_uint_eq(
	    umem_cache_alloc_bulk(cache, 100, held, UMEM_DEFAULT), 100);
	umem_cache_free_bulk(cache, 100, held);
	end(cache);
}
END_TEST

START_TEST(a_cache_may_be_spared_the_checks)
{
	umem_cache_t *cache;

	have_checks(2);
	cache = create(0, UMC_NODEBUG);
	ck_assert(cache->has_magazines);
	end(cache);
	cache =
	    umem_import_cache_create("spared", import, release, &source, 0, 0);
	ck_assert(cache->has_magazines);
	end(cache);
}
END_TEST

Suite *
import_suite(void)
{
	Suite *suite = suite_create("import");
	TCase *tc = tcase_create("import");

	tcase_set_timeout(tc, time_limit());
	tcase_add_test(tc, a_resource_is_imported_once_and_used_again);
	tcase_add_test(tc, an_import_may_deliver_fewer);
	tcase_add_loop_test(tc, errno_says_why_an_import_failed, 0, 2);
	tcase_add_test(tc, errno_is_left_alone_by_what_succeeds);
	tcase_add_test(tc, a_nofail_request_asks_the_callback);
	tcase_add_test(tc, a_free_calls_no_function_of_the_program);
	tcase_add_test(tc, an_update_in_malloc_releases_nothing);
	tcase_add_test(tc, updates_release_what_was_not_used);
	tcase_add_test(tc, updates_keep_what_the_pool_was_asked_for);
	tcase_add_loop_test(tc, a_reap_releases_everything_idle, 0, 2);
	tcase_add_loop_test(tc, no_more_stay_idle_than_the_program_allows, 0,
	    2 * array_size(limits));
	tcase_add_test(tc, resources_within_the_limit_are_used_again);
	tcase_add_loop_test(tc, bulk_calls_move_resources, 0, 2);
	tcase_add_test(tc, callbacks_may_use_other_caches);
	tcase_add_test(tc, an_import_cache_has_no_zeros);
	tcase_add_test(tc, wrong_arguments_are_invalid);
	tcase_add_test(tc, a_cache_takes_little_memory_and_leaves_none);
	tcase_add_test(tc, a_free_needs_no_memory);
	tcase_add_test(tc, without_memory_for_itself_an_allocation_fails);
	tcase_add_test(tc, resources_may_equal_addresses_of_the_heap);
	tcase_add_loop_test(tc, a_request_fails_only_if_nothing_is_idle, 0, 6);
	tcase_add_test(tc, a_request_finds_what_another_thread_has_in_hand);
	tcase_add_test(tc, a_request_waits_for_resources_in_transit);
	tcase_add_test(tc, a_request_waits_for_no_call_that_does_not_end);
	tcase_add_test(tc, a_child_waits_for_no_call_of_its_parent);
	tcase_add_test(tc, a_call_may_fork);
	tcase_add_loop_test(tc, a_reserve_works_on_resources, 0, 3);
	tcase_add_test(tc, misuse_is_reported);
	tcase_add_test(tc, an_import_that_is_wrong_is_reported);
	tcase_add_loop_test(
	    tc, a_report_of_a_wrong_free_or_import_holds_no_lock, 0, 2);
	tcase_add_test(tc, destroying_a_cache_in_use_is_reported);
	tcase_add_loop_test(
	    tc, with_checks_every_second_free_is_reported, 0, 2);
	tcase_add_test(
	    tc, checks_record_a_resource_before_the_lock_is_released);
	tcase_add_loop_test(tc, with_checks_everything_works, 0, 4);
	tcase_add_test(tc, a_cache_may_be_spared_the_checks);
	if (!machine_is_emulated()) {
		tcase_add_test(tc, imports_grow_with_use);
	}
	suite_add_tcase(suite, tc);
	return suite;
}
