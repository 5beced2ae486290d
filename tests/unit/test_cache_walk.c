/*
 * test_cache_walk.c - walks over the caches beside the worker, pins, and what a
 * child of fork() keeps of both; each test is a separate process
 */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/second.h"
#include "umem/cache/cache.h"
#include "umem/cache/cache_walk.h"
#include "umem/cache/worker.h"
#include "vmem/os.h"

#define MOST  100
#define BYTES 200

static umem_cache_t *other;
static uint32_t nwrong;                     /* [atomic] */
static uint32_t in_reclaim, out_of_reclaim; /* [atomic] */

static uint32_t
get(uint32_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void
nap(unsigned msec)
{
	struct timespec t = {msec / 1000, msec % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static umem_cache_t *
create(umem_reclaim_t *reclaim)
{
	umem_cache_t *cache = umem_cache_create(
	    "walk", BYTES, 0, NULL, NULL, reclaim, NULL, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/* Allocate and free objects, so that they are in magazines and slabs. */
static void
use(umem_cache_t *cache)
{
	void *objects[MOST];

	for (unsigned i = 0; i < MOST; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (unsigned i = 0; i < MOST; i++)
		umem_cache_free(cache, objects[i]);
}

static void *
reap_in_thread(void *arg)
{
	umem_reap();
	return arg;
}

/*
 * Threads that pin a cache by cache_walk_beside_worker().  Any number may
 * pin it beside the worker.  They stay until may_leave is set.
 */
static uint32_t nin, nout, may_leave; /* [atomic] */

static void
wait_for(uint32_t *word)
{
	while (get(word) == 0)
		nap(1);
}

static bool
is_other(struct umem_cache *cache)
{
	return cache == other;
}

static bool
stay_there(struct umem_cache *cache, void *arg)
{
	(void)arg;
	if (cache != other)
		nwrong++;
	__atomic_add_fetch(&nin, 1, __ATOMIC_RELEASE);
	wait_for(&may_leave);
	/*
	 * The threads leave one after the other.  A destroyer that waits for
	 * only one of them would therefore return before the last has left.
	 */
	nap(20 * __atomic_add_fetch(&nout, 1, __ATOMIC_ACQ_REL));
	__atomic_sub_fetch(&nin, 1, __ATOMIC_RELEASE);
	return true;
}

static void *
pin_in_thread(void *arg)
{
	cache_walk_beside_worker(WALK_DEPOTS, is_other, stay_there, arg);
	return arg;
}

static void *
let_them_leave(void *arg)
{
	nap(50);
	__atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
	return arg;
}

START_TEST(a_cache_is_not_destroyed_while_it_is_pinned)
{
	pthread_t thread[4];

	other = create(NULL);
	/* This cache is behind the other one on the list. */
	create(NULL);
	use(other);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, pin_in_thread, NULL);
	while (get(&nin) != 3)
		nap(1);
	pthread_create(&thread[3], NULL, let_them_leave, NULL);
	umem_cache_destroy(other);
	ck_assert_uint_eq(get(&nout), 3);
	ck_assert_uint_eq(get(&nin), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static void
linger_long(void *priv)
{
	(void)priv;
	__atomic_store_n(&in_reclaim, 1, __ATOMIC_RELEASE);
	wait_for(&out_of_reclaim);
}

START_TEST(a_walk_beside_the_worker_does_not_wait_for_it)
{
	pthread_t thread;

	other = create(linger_long);
	use(other);
	pthread_create(&thread, NULL, reap_in_thread, NULL);
	wait_for(&in_reclaim);
	may_leave = 1;
	pin_in_thread(NULL);
	ck_assert_uint_eq(get(&nout), 1);
	__atomic_store_n(&out_of_reclaim, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}
END_TEST

static bool
end_here(struct umem_cache *cache, void *n)
{
	(void)cache;
	return --*(unsigned *)n != 0;
}

static bool
anyone(struct umem_cache *cache)
{
	(void)cache;
	return true;
}

START_TEST(a_walk_ends_when_its_function_returns_false)
{
	unsigned n = 3;

	for (int i = 0; i < 10; i++)
		create(NULL);
	cache_walk_beside_worker(WALK_DEPOTS, anyone, end_here, &n);
	ck_assert_uint_eq(n, 0);
	n = 10000;
	cache_walk_beside_worker(WALK_DEPOTS, anyone, end_here, &n);
	ck_assert_uint_le(n, 10000 - 10);
}
END_TEST

enum {
	NMANY = 3 * WALK_OTHERS
};

static umem_cache_t *many[NMANY];
static unsigned nseen[NMANY];
static unsigned nclasses;

static bool
note_seen(struct umem_cache *cache)
{
	nclasses += cache->class != 0;
	for (unsigned i = 0; i < NMANY; i++)
		if (many[i] == cache)
			nseen[i]++;
	return true;
}

static void
walk_as_worker(enum cache_walk walk)
{
	ck_assert(worker_begin());
	cache_walk_as_worker(walk, note_seen);
	worker_end();
}

START_TEST(a_walk_over_some_caches_goes_on_where_it_ended)
{
	for (unsigned i = 0; i < NMANY; i++)
		many[i] = create(NULL);
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	for (unsigned walk = 1; walk <= 4; walk++) {
		unsigned n = 0;

		memset(nseen, 0, sizeof(nseen));
		nclasses = 0;
		walk_as_worker(WALK_GROWTH);
		ck_assert_uint_ge(nclasses, 1);
		for (unsigned i = 0; i < NMANY; i++) {
			ck_assert_uint_le(nseen[i], 1);
			n += nseen[i];
		}
		/* A few of the caches may be the library's. */
		ck_assert_uint_ge(n, WALK_OTHERS - 8);
		ck_assert_uint_le(n, WALK_OTHERS);
	}
	/* Each kind of walk has its own position in the list. */
	memset(nseen, 0, sizeof(nseen));
	walk_as_worker(WALK_PURGE);
	ck_assert_uint_eq(nseen[0], 1);
}
END_TEST

START_TEST(a_walk_goes_on_behind_a_destroyed_cache)
{
	for (unsigned i = 0; i < NMANY; i++)
		many[i] = create(NULL);
	walk_as_worker(WALK_GROWTH);
	/* The walk's next cache is among those that are destroyed. */
	for (unsigned i = 0; i < NMANY; i++)
		if (nseen[i] == 0 || i % 2 == 0) {
			umem_cache_destroy(many[i]);
			many[i] = NULL;
		}
	memset(nseen, 0, sizeof(nseen));
	walk_as_worker(WALK_GROWTH);
	for (unsigned i = 0; i < NMANY; i++)
		ck_assert_uint_eq(nseen[i], many[i] != NULL);
}
END_TEST

static size_t
one(struct umem_cache *cache)
{
	return cache->class == 0;
}

START_TEST(a_sum_covers_all_caches_and_no_destroyed_one)
{
	size_t others = cache_walk_sum(TALLY_HOLES, one), sum;

	for (unsigned i = 0; i < NMANY; i++)
		many[i] = create(NULL);
	for (unsigned i = 0; i <= NMANY / WALK_OTHERS; i++)
		sum = cache_walk_sum(TALLY_HOLES, one);
	ck_assert_uint_eq(sum, others + NMANY);
	for (unsigned i = 0; i < NMANY; i++)
		umem_cache_destroy(many[i]);
	ck_assert_uint_eq(cache_walk_sum(TALLY_HOLES, one), others);
}
END_TEST

static void
ends_well(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* A thread that pins a cache in the parent does not exist in the child. */
START_TEST(a_forked_child_waits_for_no_pin_of_its_parent)
{
	pthread_t thread;
	pid_t child;

	other = create(NULL);
	pthread_create(&thread, NULL, pin_in_thread, NULL);
	wait_for(&nin);
	child = fork();
	if (child == 0) {
		limit_time();
		umem_cache_destroy(other);
		_exit(get(&nout) == 0 ? 0 : 1);
	}
	ends_well(child);
	__atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}
END_TEST

static pid_t forked;

/*
 * The thread that forks while it has the cache pinned is the first.  In the
 * child, a second thread comes before the first leaves.
 */
static bool
fork_there(struct umem_cache *cache, void *thread)
{
	(void)cache;
	forked = fork();
	if (forked != 0)
		return true;
	limit_time();
	pthread_create(thread, NULL, pin_in_thread, NULL);
	wait_for(&nin);
	return true;
}

START_TEST(the_pin_of_a_thread_that_forks_is_void_in_the_child)
{
	pthread_t thread[2];

	other = create(NULL);
	cache_walk_beside_worker(WALK_DEPOTS, is_other, fork_there, &thread[0]);
	if (forked == 0) {
		/* The child waits for the second thread only. */
		pthread_create(&thread[1], NULL, let_them_leave, NULL);
		umem_cache_destroy(other);
		if (get(&nout) != 1 || get(&nin) != 0)
			_exit(1);
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
		_exit(0);
	}
	umem_cache_destroy(other);
	ends_well(forked);
}
END_TEST

static void *
be_the_worker(void *arg)
{
	if (!worker_begin())
		nwrong++;
	__atomic_store_n(&nin, 1, __ATOMIC_RELEASE);
	wait_for(&may_leave);
	worker_end();
	return arg;
}

/* In the child, another thread becomes the worker before this one returns. */
static void
fork_and_return(void *thread)
{
	if (forked != -1)
		return;
	forked = fork();
	if (forked != 0)
		return;
	limit_time();
	pthread_create(thread, NULL, be_the_worker, NULL);
	wait_for(&nin);
}

/*
 * The worker forks in a callback, beside another thread.  In the child its turn
 * has ended, so it ends neither the turn of the thread that is the worker there
 * nor walks on.
 */
START_TEST(the_turn_of_a_worker_that_forks_ends_in_the_child)
{
	pthread_t thread;

	second_start();
	forked = -1;
	umem_cache_create(
	    "forks", 100, 0, NULL, NULL, fork_and_return, &thread, NULL, 0);
	other = create(NULL);
	use(other);
	umem_reap();
	if (forked == 0) {
		bool begun = worker_begin();

		__atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		_exit(begun || nwrong != 0 || slab_total(&other->slabs) == 0);
	}
	ck_assert_int_gt(forked, 0);
	ends_well(forked);
	ck_assert_uint_eq(slab_total(&other->slabs), 0);
}
END_TEST

static pthread_t destroyer;

static void
fork_now(int signal)
{
	(void)signal;
	forked = fork();
	if (forked == 0)
		limit_time();
}

static void *
have_it_fork(void *arg)
{
	nap(100);
	pthread_kill(destroyer, SIGUSR1);
	nap(100);
	__atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
	return arg;
}

/*
 * A signal handler forks while the thread waits for a pin that does not
 * exist in the child.
 */
START_TEST(a_thread_that_waits_for_a_pin_may_fork)
{
	pthread_t thread[2];

	forked = -1;
	destroyer = pthread_self();
	signal(SIGUSR1, fork_now);
	other = create(NULL);
	pthread_create(&thread[0], NULL, pin_in_thread, NULL);
	wait_for(&nin);
	pthread_create(&thread[1], NULL, have_it_fork, NULL);
	umem_cache_destroy(other);
	if (forked == 0)
		_exit(get(&nout) == 0 ? 0 : 1);
	ck_assert_uint_eq(get(&nout), 1);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_gt(forked, 0);
	ends_well(forked);
}
END_TEST

Suite *
cache_walk_suite(void)
{
	Suite *suite = suite_create("cache_walk");
	TCase *tc = tcase_create("cache_walk");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_cache_is_not_destroyed_while_it_is_pinned);
	tcase_add_test(tc, a_walk_beside_the_worker_does_not_wait_for_it);
	tcase_add_test(tc, a_walk_ends_when_its_function_returns_false);
	tcase_add_test(tc, a_walk_over_some_caches_goes_on_where_it_ended);
	tcase_add_test(tc, a_walk_goes_on_behind_a_destroyed_cache);
	tcase_add_test(tc, a_sum_covers_all_caches_and_no_destroyed_one);
	tcase_add_test(tc, a_forked_child_waits_for_no_pin_of_its_parent);
	tcase_add_test(tc, the_pin_of_a_thread_that_forks_is_void_in_the_child);
	tcase_add_test(tc, the_turn_of_a_worker_that_forks_ends_in_the_child);
	tcase_add_test(tc, a_thread_that_waits_for_a_pin_may_fork);
	suite_add_tcase(suite, tc);
	return suite;
}
