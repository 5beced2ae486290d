/*
 * test_fork.c - children of a process with running threads
 *
 * A child creates no threads, because a sanitizer could not follow it.
 */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/time_limit.h"
#include "tests/unit/live.h"
#include "tests/unit/second.h"
#include "tests/unit/child.h"
#include "umem/cache/cache.h"
#include "umem/fork.h"
#include "umem/base/ready.h"
#include "umem/upkeep/update.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

#define NTHREADS 3
#define NFORKS   25

static umem_cache_t *shared, *sourced;
static vmem_t *arena;
static uint32_t stop, nwrong; /* [atomic] */

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	*(uint64_t *)buf = 77;
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)priv;
	if (*(uint64_t *)buf != 77)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
}

static void *
import(vmem_t *source, size_t size, int vmflag)
{
	return vmem_alloc(source, size, vmflag);
}

static void
release(vmem_t *source, void *at, size_t size)
{
	vmem_free(source, at, size);
}

static void
create_all(void)
{
	arena = vmem_create("forked", NULL, 0, 4096, import, release,
	    vmem_heap_arena(NULL, NULL), 0, VM_NOSLEEP);
	shared = umem_cache_create(
	    "shared", 100, 0, construct, destruct, NULL, NULL, NULL, 0);
	sourced = umem_cache_create(
	    "sourced", 300, 0, construct, destruct, NULL, NULL, arena, 0);
	ck_assert_ptr_nonnull(shared);
	ck_assert_ptr_nonnull(sourced);
}

static void *
work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	void *a[50], *b[50], *c[50], *d[600];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		unsigned n = (unsigned)rand_r(&seed) % 50;
		size_t size = 1 + (size_t)rand_r(&seed) % 100000;
		umem_cache_t *own = NULL;

		if (rand_r(&seed) % 8 == 0)
			own = umem_cache_create(
			    "own", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
		/* Whole magazines move to and from the slabs. */
		for (unsigned i = 0; i < 12 * n; i++)
			d[i] = umem_alloc(24, UMEM_DEFAULT);
		for (unsigned i = 0; i < 12 * n; i++)
			umem_free(d[i], 24);
		for (unsigned i = 0; i < n; i++) {
			a[i] = umem_cache_alloc(shared, UMEM_DEFAULT);
			b[i] = umem_cache_alloc(sourced, UMEM_DEFAULT);
			c[i] = umem_alloc(size, UMEM_DEFAULT);
		}
		for (unsigned i = 0; i < n; i++) {
			umem_cache_free(shared, a[i]);
			umem_cache_free(sourced, b[i]);
			umem_free(c[i], size);
		}
		if (own != NULL)
			umem_cache_destroy(own);
		if (rand_r(&seed) % 32 == 0)
			umem_cache_reap_now(shared);
		if (rand_r(&seed) % 64 == 0)
			umem_reap();
	}
	return NULL;
}

static bool
uses(umem_cache_t *cache)
{
	static void *p[500];

	for (int i = 0; i < 500; i++) {
		p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		if (p[i] == NULL || *(uint64_t *)p[i] != 77)
			return false;
		for (int j = 0; i < 20 && j < i; j++)
			if (p[i] == p[j])
				return false;
	}
	for (int i = 0; i < 500; i++)
		umem_cache_free(cache, p[i]);
	return slab_store_check(&cache->slabs);
}

/*
 * Uses all parts of the library in the child.  Returns 0, or the number of the
 * check that failed.
 */
static int
live_on(void)
{
	size_t used;
	umem_cache_t *own = umem_cache_create(
	    "child", 100, 0, construct, destruct, NULL, NULL, NULL, 0);

	if (own == NULL || !uses(own))
		return 1;
	if (!uses(shared) || !uses(sourced))
		return 2;
	for (unsigned c = 1; c <= size_classes.n; c++) {
		void *p = umem_alloc(size_classes.bytes[c], UMEM_DEFAULT);

		if (p == NULL)
			return 3;
		memset(p, 1, size_classes.bytes[c]);
		umem_free(p, size_classes.bytes[c]);
		/* A chunk of a larger class may have served the request. */
		if (class_cache_if_made(c) != NULL &&
		    !slab_store_check(&class_cache[c]->slabs))
			return 4;
	}
	umem_free(umem_alloc(20 * MIB, UMEM_NOFAIL), 20 * MIB);
	umem_cache_reap_now(shared);
	umem_cache_reap_now(sourced);
	umem_reap();
	update_trim();
	if (heap_dirty() != 0)
		return 5;
	umem_cache_destroy(own);
	/*
	 * Objects held by the parent's threads stay allocated forever.  The
	 * caches report these as leaks.
	 */
	close(2);
	open("/dev/null", O_WRONLY);
	umem_cache_destroy(shared);
	umem_cache_destroy(sourced);
	used = meta_used();
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
	return nwrong != 0 ? 6 : used == 0 ? 7 : 0;
}

static int
child_of(int (*f)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		limit_time();
		_exit(f());
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

static int
live_on_in_a_grandchild(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(live_on());
	waitpid(child, &status, 0);
	return status != 0 ? 8 : live_on();
}

static void
with_threads(int (*f)(void))
{
	pthread_t thread[NTHREADS];

	create_all();
	for (uintptr_t i = 0; i < NTHREADS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
	for (int i = 0; i < NFORKS; i++) {
		int status = child_of(f);

		ck_assert_msg(status == 0, "fork %d: status %x", i, status);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	/* The parent has lost no object. */
	ck_assert_uint_eq(cache_live(shared), 0);
	ck_assert_uint_eq(cache_live(sourced), 0);
	umem_cache_destroy(shared);
	umem_cache_destroy(sourced);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	ck_assert_uint_eq(nwrong, 0);
}

START_TEST(a_child_can_use_and_destroy_everything)
{
	with_threads(live_on);
}
END_TEST

START_TEST(so_can_its_child)
{
	with_threads(live_on_in_a_grandchild);
}
END_TEST

/* In a process with one thread, the child has every object. */
static int
nothing_is_lost(void)
{
	if (cache_live(shared) != 0)
		return 1;
	umem_cache_reap_now(shared);
	return slab_total(&shared->slabs) == 0 ? 0 : 2;
}

START_TEST(a_child_of_one_thread_loses_nothing)
{
	create_all();
	ck_assert(uses(shared));
	ck_assert_int_eq(child_of(nothing_is_lost), 0);
	ck_assert_int_eq(nothing_is_lost(), 0);
}
END_TEST

static int status_inside;

/* The worker calls this in the middle of its walk over the caches. */
static void
fork_in_reclaim(void *priv)
{
	(void)priv;
	/* Fork only once, because the child reaps as well. */
	if (status_inside == -1) {
		status_inside = 0;
		status_inside = child_of(live_on);
	}
}

static int nforked;

static int
fork_in_constructor(void *buf, void *priv, int flags)
{
	if (nforked++ == 3)
		status_inside = child_of(live_on);
	return construct(buf, priv, flags);
}

START_TEST(callbacks_may_fork)
{
	umem_cache_t *cache;

	create_all();
	status_inside = -1;
	cache = umem_cache_create("asks", 100, 0, construct, destruct,
	    fork_in_reclaim, NULL, NULL, 0);
	ck_assert(uses(cache));
	ck_assert(uses(shared));
	umem_reap();
	ck_assert_int_eq(status_inside, 0);
	status_inside = -1;
	cache = umem_cache_create("constructs", 100, 0, fork_in_constructor,
	    destruct, NULL, NULL, NULL, 0);
	ck_assert(uses(cache));
	ck_assert_int_eq(status_inside, 0);
	umem_cache_destroy(cache);
}
END_TEST

/* The child of a fork inside a callback returns from that callback. */
static void
fork_and_return(void *priv)
{
	(void)priv;
	if (nforked++ == 0)
		status_inside = fork();
}

START_TEST(a_child_can_return_from_a_callback)
{
	int status;

	create_all();
	umem_cache_create("forks", 100, 0, construct, destruct, fork_and_return,
	    NULL, NULL, 0);
	ck_assert(uses(shared));
	umem_reap();
	if (status_inside == 0) {
		umem_reap();
		_exit(slab_total(&shared->slabs) == 0 ? live_on() : 9);
	}
	ck_assert_int_eq(waitpid(status_inside, &status, 0), status_inside);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(slab_total(&shared->slabs), 0);
}
END_TEST

/* Fork handlers of the program that run between the library's may allocate. */
START_TEST(the_forking_thread_may_allocate_meanwhile)
{
	void *p, *q;

	create_all();
	p = umem_alloc(100, UMEM_DEFAULT);
	fork_prepare();
	q = umem_alloc(5000, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(q);
	umem_free(p, 100);
	p = umem_alloc(20 * MIB, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(p);
	umem_free(p, 20 * MIB);
	p = umem_cache_alloc(shared, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(p);
	fork_parent();
	umem_free(q, 5000);
	umem_cache_free(shared, p);
	ck_assert(uses(shared));
	fork_prepare();
	p = umem_cache_alloc(shared, UMEM_DEFAULT);
	umem_cache_free(shared, p);
	fork_child();
	ck_assert(uses(shared));
	umem_cache_destroy(shared);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static struct lock *const *tried; /* ends with NULL */

/* The number of the locks that this thread gets. */
static void *
try_all(void *arg)
{
	uintptr_t n = 0;

	for (struct lock *const *lock = tried; *lock != NULL; lock++)
		if (lock_try(*lock)) {
			lock_release(*lock);
			n++;
		}
	(void)arg;
	return (void *)n;
}

static uintptr_t
tried_by_a_thread(void)
{
	pthread_t thread;
	void *n;

	ck_assert_int_eq(pthread_create(&thread, NULL, try_all, NULL), 0);
	pthread_join(thread, &n);
	return (uintptr_t)n;
}

/*
 * The locks of depots and slabs.  fork() does not write to them, because the
 * kernel would copy the page.
 */
START_TEST(no_thread_gets_a_lock_of_a_cache_and_fork_takes_none)
{
	struct lock *lock[5] = {NULL};

	magazine_depot_shards = 3;
	create_all();
	ck_assert_uint_eq(shared->mag.nshards, 3);
	for (unsigned i = 0; i < 3; i++)
		lock[i] = &magazine_shard(&shared->mag, i)->lock;
	lock[3] = &shared->slabs.lock;
	tried = lock;
	ck_assert_uint_eq(tried_by_a_thread(), 4);
	for (int child = 0; child < 2; child++) {
		fork_prepare();
		/* Would wait for ever if fork() had taken it. */
		for (unsigned i = 0; i < 4; i++)
			lock_await_for_fork(lock[i]);
		ck_assert_uint_eq(tried_by_a_thread(), 0);
		/* A thread that was turned away does not exist in the child. */
		if (child)
			for (unsigned i = 0; i < 4; i++)
				lock[i]->state = 1 + i % 2;
		(child ? fork_child : fork_parent)();
		ck_assert_uint_eq(tried_by_a_thread(), 4);
	}
	ck_assert(uses(shared));
}
END_TEST

/*
 * Makes the process multi-threaded until its end.  A process with one thread
 * takes no locks.
 */
static void
have_two_threads(void)
{
	second_start();
	fork_prepare();
	ck_assert(lock_is_forking());
	fork_parent();
	ck_assert(!lock_is_forking());
}

Suite *
fork_suite(void)
{
	Suite *suite = suite_create("fork");
	TCase *tc = tcase_create("fork");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, have_two_threads, NULL);
	tcase_add_test(tc, a_child_can_use_and_destroy_everything);
	tcase_add_test(tc, so_can_its_child);
	tcase_add_test(tc, a_child_of_one_thread_loses_nothing);
	tcase_add_test(tc, callbacks_may_fork);
	tcase_add_test(tc, a_child_can_return_from_a_callback);
	tcase_add_test(tc, the_forking_thread_may_allocate_meanwhile);
	tcase_add_test(
	    tc, no_thread_gets_a_lock_of_a_cache_and_fork_takes_none);
	suite_add_tcase(suite, tc);
	return suite;
}
