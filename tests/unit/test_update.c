/*
 * test_update.c - upkeep: when an update is due, which thread does it, and
 * concurrent changes of caches
 *
 * Each test is a forked process, so it has no upkeep thread until the test asks
 * for one.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/hooks.h"
#include "umem/cache/cache.h"
#include "umem/base/large.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/os.h"

#define MOST  5000
#define BYTES 200
#define MSEC  1000000

static void *objects[MOST];
static uint32_t nmade, nunmade, nasked, nwrong; /* [atomic] */

static uint32_t
get(uint32_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	memset(buf, 1, BYTES);
	__atomic_add_fetch(&nmade, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)priv;
	if (*(char *)buf != 1)
		nwrong++;
	__atomic_add_fetch(&nunmade, 1, __ATOMIC_RELEASE);
}

static umem_cache_t *
create(umem_destructor_t *ends, umem_reclaim_t *reclaim)
{
	umem_cache_t *cache = umem_cache_create(
	    "upkeep", BYTES, 0, construct, ends, reclaim, NULL, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/* Allocate and free objects, so that they are in magazines and slabs. */
static void
use(umem_cache_t *cache, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (unsigned i = 0; i < n; i++)
		umem_cache_free(cache, objects[i]);
}

static void
nap(unsigned msec)
{
	struct timespec t = {msec / 1000, msec % 1000 * MSEC};

	nanosleep(&t, NULL);
}

static unsigned
ntasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		n += entry->d_name[0] != '.';
	if (dir != NULL)
		closedir(dir);
	return n;
}

/* The number of tasks at first; a sanitizer may have a thread of its own. */
static unsigned ntasks_at_first;

static void
setup(void)
{
	ntasks_at_first = ntasks();
}

/* The program's initial thread, and the threads created since. */
static unsigned
nthreads(void)
{
	return 1 + ntasks() - ntasks_at_first;
}

START_TEST(updates_are_done_when_due_and_not_before)
{
	umem_cache_t *cache = create(destruct, NULL);
	uint32_t before;

	update_interval_ns = 3600 * (uint64_t)1000 * MSEC;
	update_poll();
	use(cache, MOST);
	before = nunmade;
	for (int i = 0; i < 20; i++) {
		nap(2);
		update_poll();
	}
	ck_assert_uint_eq(nunmade, before);
}
END_TEST

START_TEST(surplus_goes_back_by_polling_alone)
{
	umem_cache_t *cache = create(NULL, NULL);
	size_t total;

	update_interval_ns = 10 * MSEC;
	use(cache, MOST);
	total = slab_total(&cache->slabs);
	while (slab_total(&cache->slabs) > total / 2) {
		nap(5);
		errno = 77;
		update_poll();
		ck_assert_int_eq(errno, 77);
	}
	ck_assert_uint_le(slab_total(&cache->slabs), total / 2);
	ck_assert_uint_eq(nthreads(), 1);
}
END_TEST

static void
count_asked(void *priv)
{
	(void)priv;
	nasked++;
}

START_TEST(polling_alone_calls_no_function_of_the_program)
{
	umem_cache_t *cache = create(destruct, count_asked);

	update_interval_ns = 1 * MSEC;
	use(cache, MOST);
	for (int i = 0; i < 100; i++) {
		nap(1);
		update_poll();
		update_tick();
	}
	ck_assert(update_reclaim(1, 0, /* may_call */ false));
	ck_assert_uint_eq(nunmade, 0);
	ck_assert_uint_eq(nasked, 0);
	umem_reap();
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nasked, 1);
}
END_TEST

/* In a child, the release in small steps of an idle parent goes no further. */
START_TEST(a_tick_of_a_busy_program_makes_ticks_rare)
{
	create(NULL, NULL);
	cpu_set_tick_pushes(1);
	update_poll();
	update_tick();
	ck_assert_uint_gt(cpu_layer.tick_pushes, 100);
	ck_assert_uint_lt(cpu_layer.tick_pushes, INT32_MAX);
}
END_TEST

/* One call of the program releases RELEASE_LIMIT bytes at most. */
START_TEST(an_idle_program_releases_everything_in_several_ticks)
{
	size_t bytes = 2 * RELEASE_LIMIT + MIB;
	bool zeroed;
	void *p = heap_alloc(bytes, HEAP_UNIT, &zeroed);

	ck_assert_ptr_nonnull(p);
	heap_free(p, bytes);
	update_poll();
	hook_now_ns = os_now_ns() + 3600 * (uint64_t)1000 * MSEC;
	for (int i = 0; i < 2; i++) {
		update_tick();
		ck_assert_uint_gt(heap_dirty(), 0);
		ck_assert_uint_eq(cpu_layer.tick_pushes, 1);
	}
	update_tick();
	ck_assert_uint_eq(heap_dirty(), 0);
	ck_assert_uint_eq(cpu_layer.tick_pushes, INT32_MAX);
}
END_TEST

START_TEST(a_reap_empties_caches_and_keeps_errno)
{
	umem_cache_t *cache = create(destruct, NULL);

	use(cache, MOST);
	errno = 77;
	umem_reap();
	ck_assert_int_eq(errno, 77);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(slab_total(&cache->slabs), 0);
}
END_TEST

START_TEST(a_trim_gives_all_to_the_kernel)
{
	umem_cache_t *cache = create(destruct, NULL);
	bool zeroed;
	char *p = large_alloc(20 * MIB, HEAP_UNIT, &zeroed);
	size_t dirty, trimmed;

	use(cache, MOST);
	memset(p, 1, 20 * MIB);
	large_free(p, 20 * MIB);
	dirty = heap_dirty();
	ck_assert_uint_ge(dirty, 20 * MIB);
	trimmed = update_trim();
	ck_assert_uint_ge(trimmed, dirty);
	/* The slabs of the objects, and little else. */
	ck_assert_uint_lt(trimmed, dirty + 20 * MIB);
	ck_assert_uint_eq(heap_dirty(), 0);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(update_trim(), 0);
}
END_TEST

/*
 * Inside a callback, update_reclaim() returns false: no more was reclaimed.  It
 * must not deadlock.
 */
static umem_cache_t *other;

static void
ask_for_all(void *priv)
{
	(void)priv;
	nasked++;
	umem_reap();
	umem_cache_reap_now(other);
	if (update_reclaim(100, 0, true))
		nwrong++;
	update_trim();
	update_poll();
	if (umem_alloc((size_t)1 << 60, UMEM_DEFAULT) != NULL)
		nwrong++;
	umem_free(umem_alloc(3000, UMEM_NOFAIL), 3000);
}

START_TEST(callbacks_may_ask_for_more_upkeep)
{
	umem_cache_t *cache = create(destruct, ask_for_all);

	other = create(NULL, NULL);
	use(cache, 100);
	umem_reap();
	ck_assert_uint_eq(nasked, 1);
	ck_assert(update_reclaim(100, 0, true));
	ck_assert_uint_eq(nasked, 2);
	update_trim();
	ck_assert_uint_eq(nasked, 3);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

START_TEST(more_than_there_ever_was_is_not_worth_it)
{
	umem_cache_t *cache = create(destruct, NULL);

	use(cache, 100);
	errno = 77;
	ck_assert(!update_reclaim(heap_committed() + 1, 0, true));
	ck_assert_uint_eq(nunmade, 0);
	ck_assert(update_reclaim(heap_committed(), 0, true));
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_int_eq(errno, 77);
}
END_TEST

/* Caches that are destroyed while upkeep walks the list of caches. */
static umem_cache_t *ends_at_once[3];

static void
end_others(void)
{
	for (int i = 0; i < 3; i++)
		if (ends_at_once[i] != NULL) {
			umem_cache_t *cache = ends_at_once[i];

			ends_at_once[i] = NULL;
			umem_cache_destroy(cache);
		}
}

static void
end_in_destructor(void *buf, void *priv)
{
	destruct(buf, priv);
	end_others();
}

static void
end_in_reclaim(void *priv)
{
	(void)priv;
	nasked++;
	end_others();
}

/* Do the work of the upkeep thread when an update is due. */
static void
update_as_thread(void)
{
	if (!worker_begin())
		return;
	update_all();
	worker_end();
}

START_TEST(callbacks_may_destroy_other_caches)
{
	umem_cache_t *before = create(destruct, NULL), *mid, *after;

	mid = _i % 2 == 0 ? create(end_in_destructor, NULL)
			  : create(destruct, end_in_reclaim);
	after = create(destruct, NULL);
	ends_at_once[0] = before;
	ends_at_once[1] = after; /* the next cache in the walk */
	ends_at_once[2] = create(destruct, NULL);
	other = create(destruct, NULL);
	use(before, 100);
	use(after, 100);
	use(ends_at_once[2], 100);
	use(mid, 3000);
	use(other, 100);
	if (_i < 2) {
		umem_reap();
	} else {
		update_interval_ns = MSEC;
		while (ends_at_once[0] != NULL) {
			nap(2);
			if (_i % 2 == 0)
				update_as_thread();
			else
				update_reclaim(1, 0, true);
		}
	}
	ck_assert_ptr_null(ends_at_once[0]);
	ck_assert_ptr_null(ends_at_once[2]);
	umem_reap();
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static void
end_itself(void *priv)
{
	(void)priv;
	nasked++;
	umem_cache_destroy(other);
	/* The memory may be used for another cache by now. */
	create(NULL, NULL);
}

START_TEST(a_reclaim_callback_may_destroy_its_own_cache)
{
	other = create(destruct, end_itself);
	use(other, 100);
	umem_reap();
	umem_reap();
	ck_assert_uint_eq(nasked, 1);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

static void
create_more(void *priv)
{
	(void)priv;
	/*
	 * Without this limit, each new cache would be asked in turn without
	 * end.
	 */
	if (++nasked < 50)
		create(NULL, create_more);
}

START_TEST(caches_made_meanwhile_are_walked_too)
{
	create(NULL, create_more);
	umem_reap();
	ck_assert_uint_ge(nasked, 1);
	ck_assert_uint_le(nasked, 50);
}
END_TEST

/* Another thread is using a cache, so destroying it must wait. */
static uint32_t in_reclaim, out_of_reclaim; /* [atomic] */

static void
linger(void *priv)
{
	(void)priv;
	__atomic_store_n(&in_reclaim, 1, __ATOMIC_RELEASE);
	nap(60);
	__atomic_store_n(&out_of_reclaim, 1, __ATOMIC_RELEASE);
}

static void *
reap_in_thread(void *arg)
{
	umem_reap();
	return arg;
}

START_TEST(a_cache_is_not_destroyed_under_the_updater)
{
	pthread_t thread;

	other = create(destruct, linger);
	use(other, 100);
	pthread_create(&thread, NULL, reap_in_thread, NULL);
	while (!get(&in_reclaim))
		nap(1);
	umem_cache_destroy(other);
	ck_assert_uint_eq(get(&out_of_reclaim), 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

/* From now on the process may have so many bytes more than now. */
static void
limit_data(size_t bytes)
{
	struct rlimit limit = {0, RLIM_INFINITY};
	FILE *statm = fopen("/proc/self/statm", "r");
	size_t pages;

	ck_assert_int_eq(fscanf(statm, "%*u %*u %*u %*u %*u %zu", &pages), 1);
	fclose(statm);
	limit.rlim_cur = pages * os_page_size() + bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
}

/*
 * The free block that is large enough has been decommitted, and another one,
 * which is dirty, counts against the limit.
 */
START_TEST(free_memory_gives_way_to_a_request)
{
	char *away, *dirty;

	limit_data(GIB);
	away = umem_alloc(30 * MIB, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(umem_alloc(9 * MIB, UMEM_DEFAULT));
	dirty = umem_alloc(24 * MIB, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(umem_alloc(9 * MIB, UMEM_DEFAULT));
	memset(away, 1, 30 * MIB);
	umem_free(away, 30 * MIB);
	heap_purge(0, SIZE_MAX);
	memset(dirty, 1, 24 * MIB);
	umem_free(dirty, 24 * MIB);
	limit_data(8 * MIB);
	ck_assert_ptr_nonnull(umem_alloc(26 * MIB, UMEM_DEFAULT));
}
END_TEST

START_TEST(a_reclaim_waits_a_while_for_another)
{
	pthread_t thread;

	other = create(destruct, linger);
	use(other, 1);
	pthread_create(&thread, NULL, reap_in_thread, NULL);
	while (!get(&in_reclaim))
		nap(1);
	/* The other thread reclaims, so the caller should try again. */
	ck_assert(update_reclaim(1, 0, true));
	pthread_join(thread, NULL);
	/* No thread reclaims any more. */
	__atomic_store_n(&in_reclaim, 0, __ATOMIC_RELAXED);
	umem_reap();
	ck_assert_uint_eq(get(&in_reclaim), 1);
}
END_TEST

/* Tests of the upkeep thread. */

static void
wait_for(uint32_t *word)
{
	while (get(word) == 0)
		nap(1);
}

START_TEST(there_is_no_thread_that_nobody_wants)
{
	update_thread_wanted = THREAD_AUTO;
	update_thread_offer(/* created */ false);
	ck_assert_uint_eq(nthreads(), 1);
	update_thread_wanted = THREAD_NO;
	update_thread_offer(false);
	update_thread_offer(/* created */ true);
	ck_assert_uint_eq(nthreads(), 1);
}
END_TEST

static unsigned nstarted; /* number of threads after the start */

/*
 * Start the upkeep thread.  False: it cannot be created, because a sanitizer
 * needs more stack than it has.
 */
static bool
start_thread(void)
{
	update_thread_wanted = THREAD_YES;
	update_thread_offer(false);
	if (!update_has_thread())
		return false;
	nstarted = nthreads();
	ck_assert_uint_ge(nstarted, 2);
	return true;
}

START_TEST(the_thread_gives_memory_back_while_the_program_sleeps)
{
	umem_cache_t *cache = create(destruct, NULL);
	bool zeroed;
	char *p;

	update_interval_ns = 50 * MSEC;
	if (!start_thread())
		return;
	/* However often a thread is offered, only one is created. */
	update_thread_offer(true);
	ck_assert_uint_eq(nthreads(), nstarted);
	p = large_alloc(20 * MIB, HEAP_UNIT, &zeroed);
	memset(p, 1, 20 * MIB);
	use(cache, MOST);
	large_free(p, 20 * MIB);
	ck_assert_uint_ge(heap_dirty(), 20 * MIB);
	/*
	 * Call update_poll(), as free() does, because the upkeep thread may be
	 * asleep by now.
	 */
	update_poll();
	wait_until(heap_dirty() == 0);
	ck_assert_uint_eq(heap_dirty(), 0);
	wait_until(get(&nunmade) >= MOST / 2);
	ck_assert_uint_ge(get(&nunmade), MOST / 2);
}
END_TEST

/*
 * The upkeep thread waits on one word, which is 0 while it is awake.  Its first
 * wait is for the next update.
 */
static pthread_t not_upkeep;
static const uint32_t *rest_word;
static uint32_t nasleep; /* [atomic] waits while the word is not 0 */
static char *freed_then; /* [a] 20 MiB, freed at the first such wait */

static void
watch_rest(const uint32_t *word)
{
	char *span;

	if (pthread_equal(pthread_self(), not_upkeep))
		return;
	if (rest_word == NULL)
		rest_word = word;
	if (word != rest_word || __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
		return;
	span = __atomic_exchange_n(&freed_then, NULL, __ATOMIC_ACQ_REL);
	if (span != NULL)
		heap_free(span, 20 * MIB);
	__atomic_add_fetch(&nasleep, 1, __ATOMIC_RELEASE);
}

static void
until_all_is_purged(void)
{
	for (int i = 0; i < 2000 && heap_dirty() != 0; i++)
		nap(10);
	ck_assert_uint_eq(heap_dirty(), 0);
}

static char *
dirty_span(void)
{
	bool zeroed;
	char *p = heap_alloc(20 * MIB, HEAP_UNIT, &zeroed);

	ck_assert_ptr_nonnull(p);
	memset(p, 1, 20 * MIB);
	return p;
}

/* The freeing thread found the upkeep thread awake, and makes no more calls. */
START_TEST(memory_freed_while_the_thread_falls_asleep_goes_back)
{
	update_interval_ns = 5 * MSEC;
	not_upkeep = pthread_self();
	__atomic_store_n(&freed_then, dirty_span(), __ATOMIC_RELEASE);
	hook_os_futex_wait = watch_rest;
	if (!start_thread())
		return;
	wait_for(&nasleep);
	ck_assert_ptr_null(__atomic_load_n(&freed_then, __ATOMIC_ACQUIRE));
	until_all_is_purged();
}
END_TEST

/* No update is due for a long time, and the program makes no more calls. */
START_TEST(memory_freed_while_the_thread_sleeps_goes_back)
{
	char *p = dirty_span();

	update_interval_ns = (uint64_t)1000000 * MSEC;
	update_poll();
	update_interval_ns = 5 * MSEC;
	not_upkeep = pthread_self();
	hook_os_futex_wait = watch_rest;
	if (!start_thread())
		return;
	/* The second wait has no time limit. */
	for (int i = 0; i < 2000 && get(&nasleep) < 2; i++)
		nap(10);
	heap_free(p, 20 * MIB);
	update_poll();
	until_all_is_purged();
}
END_TEST

static char *freed_at_creation; /* 20 MiB */

/* The upkeep thread falls asleep before its creator notes that it exists. */
static void
free_when_asleep(void)
{
	for (int i = 0; i < 2000 && get(&nasleep) < 2; i++)
		nap(10);
	heap_free(freed_at_creation, 20 * MIB);
	update_poll();
}

START_TEST(memory_freed_before_the_thread_is_known_goes_back)
{
	freed_at_creation = dirty_span();
	update_interval_ns = (uint64_t)1000000 * MSEC;
	update_poll();
	update_interval_ns = 5 * MSEC;
	not_upkeep = pthread_self();
	hook_os_futex_wait = watch_rest;
	hook_pthread_created = free_when_asleep;
	if (start_thread())
		until_all_is_purged();
}
END_TEST

static uint32_t is_kept, is_offered, nwaits, has_waited; /* [atomic] */

/* The keeper stays the keeper until the thread of the test has waited often. */
static void
stay_keeper(void)
{
	if (pthread_equal(pthread_self(), not_upkeep))
		return;
	is_kept = 1;
	__atomic_store_n(&is_offered, 1, __ATOMIC_RELEASE);
	while (get(&nwaits) < 5 && !get(&has_waited))
		nap(1);
}

static void
count_waits(const uint32_t *word)
{
	(void)word;
	if (pthread_equal(pthread_self(), not_upkeep))
		__atomic_add_fetch(&nwaits, 1, __ATOMIC_RELEASE);
}

static void *
offer_in_thread(void *unused)
{
	update_thread_offer(/* created */ true);
	__atomic_store_n(&is_offered, 1, __ATOMIC_RELEASE);
	return unused;
}

/* A thread waits until the upkeep thread has begun or, if _i is 1, is gone. */
START_TEST(a_thread_waits_for_the_keeper)
{
	pthread_t thread;
	unsigned n;

	update_thread_wanted = _i == 0 ? THREAD_YES : THREAD_AUTO;
	update_thread_begins();
	not_upkeep = pthread_self();
	hook_pthread_created = stay_keeper;
	hook_os_futex_wait = count_waits;
	pthread_create(&thread, NULL, offer_in_thread, NULL);
	wait_for(&is_offered);
	update_thread_ends();
	if (_i == 0)
		update_thread_await();
	else
		update_thread_end_now();
	n = get(&nwaits);
	__atomic_store_n(&has_waited, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	/* A sanitizer needs more stack than the upkeep thread has. */
	ck_assert(n >= 5 || !is_kept);
	ck_assert(update_has_thread() == (_i == 0) || !is_kept);
}
END_TEST

START_TEST(the_thread_sleeps_and_is_woken)
{
	umem_cache_t *cache = create(destruct, NULL);

	update_interval_ns = 5 * MSEC;
	if (!start_thread())
		return;
	for (int round = 0; round < 3; round++) {
		uint32_t before;

		/* Long enough for several updates that find nothing to do. */
		nap(60);
		use(cache, 1000);
		before = get(&nunmade);
		ck_assert_uint_le(before, get(&nmade));
		umem_reap();
		wait_until(get(&nunmade) >= get(&nmade));
		ck_assert_uint_eq(get(&nunmade), get(&nmade));
	}
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static pthread_t asked_in; /* thread of the last call */
static uint32_t nentered;  /* [atomic] calls that have begun */
static pthread_mutex_t program_lock = PTHREAD_MUTEX_INITIALIZER;

static void
ask_with_lock(void *priv)
{
	(void)priv;
	asked_in = pthread_self();
	__atomic_add_fetch(&nentered, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&program_lock);
	__atomic_add_fetch(&nasked, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&program_lock);
}

static void
wait_until_asked(uint32_t n)
{
	for (int i = 0; i < 2000 && get(&nasked) < n; i++)
		nap(5);
	ck_assert_uint_ge(get(&nasked), n);
	ck_assert(!pthread_equal(asked_in, pthread_self()));
}

START_TEST(a_request_without_memory_has_the_thread_run_callbacks)
{
	umem_cache_t *cache = create(destruct, ask_with_lock);

	if (!start_thread())
		return;
	use(cache, 100);
	ck_assert(update_reclaim(1, 0, /* may_call */ _i != 0));
	wait_until_asked(1);
	/*
	 * The upkeep thread needs program_lock.  The request does not wait
	 * without end.  A request made before the last turn has ended waits
	 * for that only.
	 */
	pthread_mutex_lock(&program_lock);
	for (unsigned i = 0; i < 100 && get(&nentered) < 2; i++)
		update_reclaim(1, 0, /* may_call */ _i != 0);
	wait_until(get(&nentered) >= 2);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(!update_reclaim(1, i, /* may_call */ _i != 0));
	ck_assert_uint_eq(get(&nasked), 1);
	pthread_mutex_unlock(&program_lock);
	wait_until_asked(2);
	for (int i = 0; i < 2000 && get(&nunmade) < get(&nmade); i++)
		nap(5);
	ck_assert_uint_eq(get(&nunmade), get(&nmade));
}
END_TEST

/* A task that was joined may still be visible for a moment. */
static bool
falls_to(unsigned n)
{
	wait_until(nthreads() <= n);
	return nthreads() == n;
}

/* The calls of destructors show the upkeep thread's work. */
static pthread_t requesting;

static void
do_nothing(int signal)
{
	(void)signal;
}

static void
ask_amid_signals(void *priv)
{
	(void)priv;
	for (int i = 0; i < 3; i++) {
		pthread_kill(requesting, SIGUSR1);
		nap(1);
	}
	__atomic_add_fetch(&nasked, 1, __ATOMIC_RELEASE);
}

/* On a busy machine, the upkeep thread may need more than the longest wait. */
START_TEST(signals_do_not_end_the_wait_for_callbacks)
{
	bool waits = false;

	use(create(destruct, ask_amid_signals), 100);
	if (!start_thread())
		return;
	requesting = pthread_self();
	signal(SIGUSR1, do_nothing);
	for (int i = 0; i < 20 && !waits; i++) {
		uint32_t before;

		wait_until(worker_begin());
		worker_end();
		before = get(&nasked);
		update_reclaim(1, 0, /* may_call */ false);
		waits = get(&nasked) != before;
	}
	ck_assert(waits);
}
END_TEST

#ifndef __SANITIZE_THREAD__
static uint32_t forked_inside; /* [atomic] the child's number; 0 in itself */

static void
fork_in_handler(int signal)
{
	(void)signal;
	__atomic_store_n(&forked_inside, (uint32_t)fork(), __ATOMIC_RELEASE);
}

/* Has a turn until the thread that waits for its end has forked. */
static void *
be_worker(void *arg)
{
	ck_assert(worker_begin());
	__atomic_store_n((uint32_t *)arg, 1, __ATOMIC_RELEASE);
	nap(20);
	pthread_kill(requesting, SIGUSR1);
	while (get(&forked_inside) == UINT32_MAX)
		nap(1);
	worker_end();
	return NULL;
}

START_TEST(a_child_does_not_wait_for_the_turn_of_its_parent)
{
	uint32_t has_turn = 0;
	pthread_t thread;
	int status;
	bool is_over;

	forked_inside = UINT32_MAX;
	requesting = pthread_self();
	signal(SIGUSR1, fork_in_handler);
	pthread_create(&thread, NULL, be_worker, &has_turn);
	while (get(&has_turn) == 0)
		nap(1);
	is_over = worker_await(2000 * (uint64_t)MSEC);
	wait_until(get(&forked_inside) != UINT32_MAX);
	if (forked_inside == 0)
		_exit(is_over ? 0 : 1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(
	    waitpid((pid_t)forked_inside, &status, 0), (pid_t)forked_inside);
	ck_assert_int_eq(status, 0);
}
END_TEST
#endif

START_TEST(a_program_with_one_thread_is_alone)
{
	umem_cache_t *cache = create(destruct, NULL);

	update_interval_ns = MSEC / 10;
	if (!start_thread())
		return;
	update_thread_wanted = THREAD_AUTO;
	for (int round = 0; round < 100; round++) {
		uint32_t before;

		update_thread_begins();
		update_thread_offer(/* created */ true);
		use(cache, 3000);
		umem_reap();
		if (round % 3 == 0)
			nap(1);
		else
			sched_yield();
		update_thread_ends();
		ck_assert(!update_has_thread());
		before = get(&nunmade);
		ck_assert(falls_to(nstarted - 1));
		ck_assert_uint_eq(get(&nunmade), before);
	}
	/*
	 * With two threads in the program, the upkeep thread is created again.
	 */
	update_thread_begins();
	while (!update_has_thread()) {
		update_thread_offer(true);
		nap(5);
	}
	ck_assert(update_has_thread());
	use(cache, 3000);
	while (get(&nunmade) < get(&nmade)) {
		umem_reap();
		nap(5);
	}
	ck_assert_uint_eq(get(&nunmade), get(&nmade));
}
END_TEST

static pthread_key_t at_end;
static uint32_t ends, may_end; /* [a] */

/* The upkeep thread has ended its stay, and exists until may_end. */
static void
end_late(void *unused)
{
	(void)unused;
	__atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
	while (get(&may_end) == 0)
		nap(1);
}

/* A thread that another one has canceled, and that creates a third one. */
static void *
offer_canceled(void *unused)
{
	pthread_cancel(pthread_self());
	update_thread_begins();
	update_thread_offer(/* created */ true);
	return unused;
}

static void
choose_end(const uint32_t *word)
{
	(void)word;
	if (!pthread_equal(pthread_self(), not_upkeep))
		pthread_setspecific(at_end, &at_end);
}

/* The upkeep thread stays, because a large block is free. */
START_TEST(a_canceled_thread_that_joins_the_thread_goes_on)
{
	pthread_t canceled;
	void *result = NULL;

	update_interval_ns = MSEC;
	not_upkeep = pthread_self();
	pthread_key_create(&at_end, end_late);
	hook_os_futex_wait = choose_end;
	if (!start_thread())
		return;
	update_thread_wanted = THREAD_AUTO;
	update_thread_begins();
	/* The thread must not purge the memory for which it is to stay. */
	wait_until(worker_begin());
	heap_free(dirty_span(), 20 * MIB);
	update_thread_ends();
	worker_end();
	wait_for(&ends);
	hook_os_futex_wait = NULL;
	ck_assert(!update_has_thread());
	pthread_create(&canceled, NULL, offer_canceled, &result);
	nap(100);
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	pthread_join(canceled, &result);
	ck_assert_ptr_eq(result, &result);
	ck_assert(update_has_thread());
	update_thread_ends();
	ck_assert(!update_has_thread());
}
END_TEST

static uint32_t waits, may_go; /* [atomic] for destruct_when_told() */

static void
destruct_when_told(void *buf, void *priv)
{
	__atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
	while (get(&may_go) == 0)
		nap(1);
	destruct(buf, priv);
}

START_TEST(who_ends_the_thread_waits_for_no_callback)
{
	umem_cache_t *cache = create(destruct_when_told, NULL);

	update_interval_ns = 5 * MSEC;
	if (!start_thread())
		return;
	update_thread_wanted = THREAD_AUTO;
	update_thread_begins();
	use(cache, 100);
	while (get(&waits) == 0) {
		umem_reap();
		nap(5);
	}
	ck_assert_uint_eq(get(&waits), 1);
	update_thread_ends();
	ck_assert(!update_has_thread());
	ck_assert_uint_eq(nthreads(), nstarted);
	/*
	 * Another upkeep thread can begin and end before the first has ended.
	 */
	update_thread_begins();
	update_thread_offer(/* created */ true);
	ck_assert(update_has_thread());
	ck_assert_uint_eq(nthreads(), nstarted + 1);
	update_thread_ends();
	ck_assert(falls_to(nstarted));
	__atomic_store_n(&may_go, 1, __ATOMIC_RELEASE);
	ck_assert(falls_to(nstarted - 1));
	umem_cache_destroy(cache);
	ck_assert_uint_eq(get(&nunmade), get(&nmade));
}
END_TEST

static unsigned npolls; /* waits of the thread that ends the upkeep thread */

static void
go_at_second_poll(const uint32_t *word)
{
	(void)word;
	if (get(&waits) != 0 && pthread_equal(pthread_self(), not_upkeep) &&
	    ++npolls == 2)
		__atomic_store_n(&may_go, 1, __ATOMIC_RELEASE);
}

/* Otherwise a program would leave a task beside the last of its threads. */
START_TEST(who_ends_the_thread_waits_a_while_for_a_callback)
{
	umem_cache_t *cache = create(destruct_when_told, NULL);

	update_interval_ns = 5 * MSEC;
	not_upkeep = pthread_self();
	hook_os_futex_wait = go_at_second_poll;
	if (!start_thread())
		return;
	update_thread_wanted = THREAD_AUTO;
	update_thread_begins();
	use(cache, 100);
	while (get(&waits) == 0) {
		umem_reap();
		nap(5);
	}
	update_thread_ends();
	ck_assert_uint_ge(npolls, 2);
	ck_assert(falls_to(nstarted - 1));
	umem_cache_destroy(cache);
}
END_TEST

#ifndef __SANITIZE_THREAD__
static pid_t forked; /* [atomic] */

/* The child ends when its only thread ends, without a sanitizer's report. */
static void
end_well(void)
{
	_exit(0);
}

static void
fork_and_return(void *priv)
{
	pid_t child;

	(void)priv;
	if (__atomic_exchange_n(&nasked, 1, __ATOMIC_RELAXED) != 0)
		return;
	child = fork();
	if (child == 0)
		atexit(end_well);
	__atomic_store_n(&forked, child, __ATOMIC_RELEASE);
}

/* It is not the worker in the child, so it does no more of the update there. */
START_TEST(the_thread_ends_in_a_child_that_a_callback_forks)
{
	pid_t child;
	int status;

	create(destruct, fork_and_return);
	if (!start_thread())
		return;
	umem_reap();
	wait_until(__atomic_load_n(&forked, __ATOMIC_ACQUIRE) != 0);
	child = __atomic_load_n(&forked, __ATOMIC_ACQUIRE);
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST
#endif

START_TEST(threads_that_come_and_go_bring_few_of_ours)
{
	unsigned n = 0;

	/* Longer than the machine has run: no interval ends meanwhile. */
	update_interval_ns = (uint64_t)1000000000 * MSEC;
	if (!start_thread())
		return;
	update_thread_wanted = THREAD_AUTO;
	update_thread_offer(/* created */ false);
	ck_assert(!update_has_thread());
	for (int round = 0; round < 100; round++) {
		update_thread_begins();
		update_thread_offer(true);
		n += update_has_thread();
		update_thread_ends();
		ck_assert(!update_has_thread());
	}
	ck_assert_uint_eq(n, 7);
	/* After an interval, an upkeep thread may be created again. */
	update_interval_ns = MSEC;
	nap(50);
	update_thread_begins();
	update_thread_offer(true);
	ck_assert(update_has_thread());
	update_thread_ends();
}
END_TEST

START_TEST(a_program_ends_with_the_thread_at_work)
{
	update_interval_ns = MSEC;
	if (!start_thread())
		return;
	other = create(destruct, NULL);
	for (int i = 0; i < 100; i++) {
		use(other, 500);
		umem_reap();
	}
	umem_cache_destroy(other);
	ck_assert_uint_eq(get(&nunmade), get(&nmade));
	/* The program's only thread "ends": the upkeep thread ends first. */
	update_thread_ends();
	ck_assert(falls_to(nstarted - 1));
}
END_TEST

Suite *
update_suite(void)
{
	Suite *suite = suite_create("update");
	TCase *tc = tcase_create("update");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, updates_are_done_when_due_and_not_before);
	tcase_add_test(tc, surplus_goes_back_by_polling_alone);
	tcase_add_test(tc, polling_alone_calls_no_function_of_the_program);
	tcase_add_test(tc, a_tick_of_a_busy_program_makes_ticks_rare);
	tcase_add_test(
	    tc, an_idle_program_releases_everything_in_several_ticks);
	tcase_add_test(tc, a_reap_empties_caches_and_keeps_errno);
	tcase_add_test(tc, a_trim_gives_all_to_the_kernel);
	tcase_add_test(tc, callbacks_may_ask_for_more_upkeep);
	tcase_add_test(tc, more_than_there_ever_was_is_not_worth_it);
	tcase_add_loop_test(tc, callbacks_may_destroy_other_caches, 0, 4);
	tcase_add_test(tc, a_reclaim_callback_may_destroy_its_own_cache);
	tcase_add_test(tc, caches_made_meanwhile_are_walked_too);
	tcase_add_test(tc, a_cache_is_not_destroyed_under_the_updater);
	tcase_add_test(tc, free_memory_gives_way_to_a_request);
	tcase_add_test(tc, a_reclaim_waits_a_while_for_another);
	tcase_add_test(tc, there_is_no_thread_that_nobody_wants);
	tcase_add_test(
	    tc, the_thread_gives_memory_back_while_the_program_sleeps);
	tcase_add_test(
	    tc, memory_freed_while_the_thread_falls_asleep_goes_back);
	tcase_add_test(tc, memory_freed_while_the_thread_sleeps_goes_back);
	tcase_add_test(tc, memory_freed_before_the_thread_is_known_goes_back);
	tcase_add_loop_test(tc, a_thread_waits_for_the_keeper, 0, 2);
	tcase_add_test(tc, the_thread_sleeps_and_is_woken);
	tcase_add_loop_test(
	    tc, a_request_without_memory_has_the_thread_run_callbacks, 0, 2);
	tcase_add_test(tc, signals_do_not_end_the_wait_for_callbacks);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, a_child_does_not_wait_for_the_turn_of_its_parent);
#endif
	tcase_add_test(tc, a_program_with_one_thread_is_alone);
	tcase_add_test(tc, a_canceled_thread_that_joins_the_thread_goes_on);
	tcase_add_test(tc, who_ends_the_thread_waits_for_no_callback);
	tcase_add_test(tc, who_ends_the_thread_waits_a_while_for_a_callback);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, the_thread_ends_in_a_child_that_a_callback_forks);
#endif
	tcase_add_test(tc, threads_that_come_and_go_bring_few_of_ours);
	tcase_add_test(tc, a_program_ends_with_the_thread_at_work);
	suite_add_tcase(suite, tc);
	return suite;
}
