/* test_limit.c - limits on the number of objects that a program holds */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/child.h"
#include "tests/unit/hooks.h"
#include "umem/malloc/alloc.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/rcu/defer_api.h"
#include "umem/base/ready.h"
#include "umem/options.h"
#include "umem/umem.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

#define MOST     300
#define NTHREADS 6
#define LATE_MS  50 /* how long a request waits */

static void *held[MOST];
static uint32_t nwrong; /* [atomic] */

/* The kinds of caches that allocate by different paths. */
enum kind {
	PLAIN,
	NO_MAGAZINES,
	GUARDS,
	KINDS_OF_CACHE
};

static umem_cache_t *
create_with(enum kind kind, struct umem_cache_args args)
{
	umem_cache_t *cache;

	ck_assert(umem_ready());
	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	if (kind == GUARDS)
		options_parse_debug("guards,noabort");
	args.size = 64;
	args.cflags = kind == NO_MAGAZINES ? UMC_NOMAGAZINE : 0;
	cache = umem_cache_create_args("limited", &args, sizeof(args));
	debug.on = false;
	ck_assert_ptr_nonnull(cache);
	return cache;
}

static umem_cache_t *
create(enum kind kind, size_t limit, int limit_wait)
{
	return create_with(kind,
	    (struct umem_cache_args){.limit = limit, .limit_wait = limit_wait});
}

static struct umem_cache_limits
limits(umem_cache_t *cache)
{
	struct umem_cache_limits out;

	ck_assert_int_eq(umem_cache_limits(cache, &out, sizeof(out)), 0);
	return out;
}

/* A request that must fail with the given error. */
static void
fails(umem_cache_t *cache, int flags, int error)
{
	errno = 0;
	ck_assert_ptr_null(umem_cache_alloc(cache, flags));
	ck_assert_int_eq(errno, error);
}

static void
take(umem_cache_t *cache, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		held[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		ck_assert_ptr_nonnull(held[i]);
	}
}

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

START_TEST(a_request_beyond_the_limit_fails)
{
	umem_cache_t *cache = create((enum kind)_i, 10, 0);

	for (int round = 0; round < 50; round++) {
		take(cache, 0, 10);
		ck_assert_uint_eq(limits(cache).in_use, 10);
		fails(cache, UMEM_DEFAULT, EAGAIN);
		fails(cache, UMEM_RESERVE, EAGAIN);
		umem_cache_free(cache, held[9]);
		ck_assert_uint_eq(limits(cache).in_use, 9);
		take(cache, 9, 10);
		fails(cache, UMEM_NOWAIT, EAGAIN);
		umem_cache_free_bulk(cache, 10, held);
		ck_assert_uint_eq(limits(cache).in_use, 0);
	}
	ck_assert_uint_eq(limits(cache).failures, 150);
	ck_assert_uint_eq(limits(cache).waits, 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(bulk_requests_count_all_or_nothing)
{
	umem_cache_t *cache = create((enum kind)_i, 100, 0);

	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 60, held, 0), 60);
	errno = 0;
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 41, held + 60, 0), 0);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(limits(cache).in_use, 60);
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 40, held + 60, 0), 40);
	umem_cache_free_bulk(cache, 100, held);
	ck_assert_uint_eq(limits(cache).in_use, 0);
	errno = 0;
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 101, held, 0), 0);
	ck_assert_int_eq(errno, EAGAIN);
	for (int round = 0; round < 20; round++) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, 100, held, 0), 100);
		for (int i = 0; i < 100; i += 3) {
			umem_cache_free(cache, held[i]);
			held[i] = NULL;
		}
		ck_assert_uint_eq(limits(cache).in_use, 66);
		umem_cache_free_bulk(cache, 100, held);
		ck_assert_uint_eq(limits(cache).in_use, 0);
	}
	umem_cache_destroy(cache);
}
END_TEST

static int
refuse(void *buf, void *priv, int flags)
{
	(void)buf;
	(void)priv;
	(void)flags;
	return -1;
}

START_TEST(requests_that_find_no_memory_do_not_count)
{
	static char memory[4096] __attribute__((aligned(4096)));
	vmem_t *arena = vmem_create("one", memory, sizeof(memory), 4096, NULL,
	    NULL, NULL, 0, VM_NOSLEEP);
	umem_cache_t *cache = create_with(
	    PLAIN, (struct umem_cache_args){.source = arena, .limit = 200});
	size_t n = 0;

	while ((held[n] = umem_cache_alloc(cache, 0)) != NULL)
		n++;
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_lt(n, 200);
	ck_assert_uint_eq(limits(cache).in_use, n);
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 5, held + n, 0), 0);
	ck_assert_uint_eq(limits(cache).in_use, n);
	ck_assert_uint_eq(limits(cache).failures, 0);
	umem_cache_free_bulk(cache, n, held);
	umem_setmtbf(1);
	fails(cache, UMEM_DEFAULT, ENOMEM);
	umem_setmtbf(0);
	ck_assert_uint_eq(limits(cache).in_use, 0);
	cache = create_with(
	    PLAIN, (struct umem_cache_args){.constructor = refuse, .limit = 2});
	for (int i = 0; i < 5; i++)
		fails(cache, UMEM_DEFAULT, ENOMEM);
	ck_assert_uint_eq(limits(cache).in_use, 0);
}
END_TEST

static void
free_twice(void)
{
	umem_cache_t *cache = create(GUARDS, 10, 0);

	take(cache, 0, 10);
	umem_cache_free(cache, held[0]);
	umem_cache_free(cache, held[0]);
	held[3] = held[0];
	umem_cache_free_bulk(cache, 9, held + 1);
	message_line("%zu in use", limits(cache).in_use);
}

/* With noabort the program continues. */
START_TEST(an_object_that_is_freed_twice_does_not_count_twice)
{
	ck_assert_ptr_nonnull(strstr(child_writes(free_twice), "1 in use"));
}
END_TEST

START_TEST(a_request_waits_as_long_as_the_cache_says)
{
	umem_cache_t *cache = create((enum kind)_i, 3, 60);
	uint64_t began;

	take(cache, 0, 3);
	began = now_ms();
	fails(cache, UMEM_NOWAIT, EAGAIN);
	ck_assert_uint_eq(limits(cache).waits, 0);
	began = now_ms();
	fails(cache, UMEM_DEFAULT, ETIMEDOUT);
	ck_assert_uint_ge(now_ms() - began, 60);
	errno = 0;
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 2, held + 3, 0), 0);
	ck_assert_int_eq(errno, ETIMEDOUT);
	/* No free could ever satisfy this request. */
	began = now_ms();
	errno = 0;
	ck_assert_int_eq(umem_cache_set_limit_wait(cache, -1), 0);
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 4, held + 3, 0), 0);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(limits(cache).waits, 2);
	ck_assert_uint_eq(limits(cache).failures, 4);
	ck_assert_uint_eq(limits(cache).waiting, 0);
	umem_cache_free_bulk(cache, 3, held);
	umem_cache_destroy(cache);
}
END_TEST

/* A request that another thread makes. */
struct request {
	umem_cache_t *cache;
	size_t n;
	pthread_t thread;
	int error;     /* 0: the request got its objects */
	uint32_t done; /* [atomic] position in the order of completion */
	void *objects[MOST];
};

static uint32_t ndone; /* [atomic] */

static void *
request(void *arg)
{
	struct request *r = arg;
	size_t got;

	errno = 0;
	if (r->n == 1)
		got = (r->objects[0] = umem_cache_alloc(r->cache, 0)) != NULL;
	else
		got = umem_cache_alloc_bulk(r->cache, r->n, r->objects, 0);
	r->error = got == r->n ? 0 : errno;
	__atomic_store_n(&r->done,
	    __atomic_add_fetch(&ndone, 1, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
	return NULL;
}

/* Start the request, and return when it has queued. */
static void
start_waiting(struct request *r, umem_cache_t *cache, size_t n)
{
	uint64_t before = limits(cache).waits;

	*r = (struct request){.cache = cache, .n = n};
	ck_assert_int_eq(pthread_create(&r->thread, NULL, request, r), 0);
	wait_until(limits(cache).waits == before + 1);
	ck_assert_uint_eq(limits(cache).waits, before + 1);
}

static void
ends(struct request *r, int error)
{
	ck_assert_int_eq(pthread_join(r->thread, NULL), 0);
	ck_assert_int_eq(r->error, error);
}

START_TEST(a_free_wakes_a_request_that_waits)
{
	umem_cache_t *cache = create((enum kind)_i, 3, -1);
	struct request r;

	take(cache, 0, 3);
	start_waiting(&r, cache, 1);
	umem_cache_free(cache, held[0]);
	ends(&r, 0);
	ck_assert_uint_eq(limits(cache).in_use, 3);
	start_waiting(&r, cache, 2);
	umem_cache_free_bulk(cache, 2, held + 1);
	ends(&r, 0);
	ck_assert_uint_eq(limits(cache).in_use, 3);
	ck_assert_uint_eq(limits(cache).failures, 0);
	ck_assert_uint_eq(limits(cache).waits, 2);
}
END_TEST

START_TEST(requests_are_served_in_order)
{
	umem_cache_t *cache = create((enum kind)_i, 10, -1);
	struct request large, small, last;

	take(cache, 0, 10);
	start_waiting(&large, cache, 3);
	start_waiting(&small, cache, 1);
	start_waiting(&last, cache, 1);
	umem_cache_free_bulk(cache, 2, held);
	/*
	 * Two objects are free, but the first request in the queue needs more.
	 */
	ck_assert_uint_eq(limits(cache).waiting, 3);
	ck_assert_uint_eq(limits(cache).in_use, 8);
	fails(cache, UMEM_NOWAIT, EAGAIN);
	umem_cache_free(cache, held[2]);
	ends(&large, 0);
	ck_assert_uint_eq(limits(cache).waiting, 2);
	umem_cache_free(cache, held[3]);
	ends(&small, 0);
	umem_cache_free(cache, held[4]);
	ends(&last, 0);
	ck_assert_uint_lt(large.done, small.done);
	ck_assert_uint_lt(small.done, last.done);
}
END_TEST

START_TEST(requests_behind_one_that_gives_up_are_served)
{
	umem_cache_t *cache = create(PLAIN, 10, 100);
	struct request large, small;

	take(cache, 0, 10);
	start_waiting(&large, cache, 5);
	ck_assert_int_eq(umem_cache_set_limit_wait(cache, -1), 0);
	start_waiting(&small, cache, 1);
	umem_cache_free_bulk(cache, 2, held);
	ends(&large, ETIMEDOUT);
	ends(&small, 0);
	ck_assert_uint_eq(limits(cache).in_use, 9);
	ck_assert_uint_eq(limits(cache).waiting, 0);
}
END_TEST

START_TEST(another_limit_is_in_force_at_once)
{
	umem_cache_t *cache = create(PLAIN, 10, -1);
	struct request large, small;

	take(cache, 0, 10);
	start_waiting(&large, cache, 5);
	start_waiting(&small, cache, 1);
	/*
	 * 10 objects are in use, above the new limit, and the first request is
	 * for more objects than the limit.
	 */
	ck_assert_int_eq(umem_cache_set_limit(cache, 4), 0);
	ends(&large, EAGAIN);
	ck_assert_uint_eq(limits(cache).waiting, 1);
	umem_cache_free_bulk(cache, 6, held);
	ck_assert_uint_eq(limits(cache).waiting, 1);
	ck_assert_int_eq(umem_cache_set_limit(cache, 5), 0);
	ends(&small, 0);
	fails(cache, UMEM_NOWAIT, EAGAIN);
	ck_assert_int_eq(umem_cache_set_limit(cache, 0), 0);
	take(cache, 10, 200);
	ck_assert_uint_eq(limits(cache).limit, 0);
	ck_assert_uint_eq(limits(cache).in_use, 195);
}
END_TEST

START_TEST(requests_behind_the_first_are_refused_by_another_limit)
{
	umem_cache_t *cache = create(PLAIN, 10, -1);
	struct request small, large, last;

	take(cache, 0, 10);
	start_waiting(&small, cache, 1);
	start_waiting(&large, cache, 5);
	start_waiting(&last, cache, 4);
	ck_assert_int_eq(umem_cache_set_limit(cache, 4), 0);
	wait_until(__atomic_load_n(&large.done, __ATOMIC_SEQ_CST) != 0);
	ck_assert_uint_ne(__atomic_load_n(&large.done, __ATOMIC_SEQ_CST), 0);
	ends(&large, EAGAIN);
	ck_assert_uint_eq(limits(cache).waiting, 2);
	umem_cache_free_bulk(cache, 10, held);
	ends(&small, 0);
	umem_cache_free(cache, small.objects[0]);
	ends(&last, 0);
	ck_assert_uint_eq(limits(cache).in_use, 4);
	ck_assert_uint_eq(limits(cache).waiting, 0);
}
END_TEST

START_TEST(caches_that_do_not_count_have_no_limit_to_change)
{
	umem_cache_t *cache =
	    umem_cache_create("none", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
	struct umem_cache_limits out = limits(cache);

	errno = 0;
	ck_assert_int_eq(umem_cache_set_limit(cache, 5), -1);
	ck_assert_int_eq(errno, ENOTSUP);
	errno = 0;
	ck_assert_int_eq(umem_cache_set_limit_wait(cache, 5), -1);
	ck_assert_int_eq(errno, ENOTSUP);
	errno = 0;
	ck_assert_int_eq(umem_cache_set_limit_wait(cache, -2), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(out.limit | out.in_use | out.reserve, 0);
	errno = 0;
	ck_assert_int_eq(umem_cache_limits(cache, NULL, sizeof(out)), -1);
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_int_eq(umem_cache_limits(cache, &out, sizeof(out) - 8), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(cache_fast_at(cache), cache_header_at(cache));
	ck_assert_uint_ne(cache_fast_at(cache), 0);
	umem_cache_destroy(cache);
	cache = create(PLAIN, 5, 0);
	ck_assert_uint_eq(cache_fast_at(cache), 0);
}
END_TEST

static int ncalls;
static size_t counted_in_callback;
static umem_cache_t *asked;

static int
free_one_and_retry(void)
{
	ncalls++;
	counted_in_callback = limits(asked).in_use;
	if (ncalls == 3)
		umem_cache_free(asked, held[0]);
	return UMEM_CALLBACK_RETRY;
}

START_TEST(a_nofail_request_asks_the_program_at_the_limit)
{
	asked = create((enum kind)_i, 10, _i % 2);
	umem_nofail_callback(free_one_and_retry);
	take(asked, 0, 10);
	ck_assert_ptr_nonnull(umem_cache_alloc(asked, UMEM_NOFAIL));
	ck_assert_int_eq(ncalls, 3);
	ck_assert_uint_eq(counted_in_callback, 10);
	ck_assert_uint_eq(limits(asked).in_use, 10);
}
END_TEST

static void
destroy_with_waiters(void)
{
	umem_cache_t *cache = create((enum kind)child_status, 2, -1);
	struct request a, b;

	take(cache, 0, 2);
	start_waiting(&a, cache, 1);
	start_waiting(&b, cache, 2);
	umem_cache_destroy(cache);
	ends(&a, ECANCELED);
	ends(&b, ECANCELED);
	message_line("both have ended");
	(void)!umem_cache_alloc(cache, 0);
}

START_TEST(requests_of_a_cache_that_is_destroyed_fail)
{
	const char *said;

	child_status = _i;
	said = child_writes(destroy_with_waiters);
	ck_assert_ptr_nonnull(strstr(said, "not empty"));
	ck_assert_ptr_nonnull(strstr(said, "both have ended"));
	ck_assert_ptr_nonnull(strstr(said, "cache was destroyed"));
	ck_assert(child_aborted());
}
END_TEST

START_TEST(the_arguments_of_limits_are_checked)
{
	struct umem_cache_args args = {.size = 64, .limit_wait = -2};

	errno = 0;
	ck_assert_ptr_null(umem_cache_create_args("wait", &args, sizeof(args)));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* Runs in the waiting thread, after it has queued and before it sleeps. */
static void
free_before_the_sleep(const uint32_t *word)
{
	hook_os_futex_wait = NULL;
	(void)word;
	umem_cache_free(asked, held[0]);
}

START_TEST(a_free_before_the_sleep_is_not_missed)
{
	asked = create((enum kind)_i, 1, -1);
	take(asked, 0, 1);
	hook_os_futex_wait = free_before_the_sleep;
	ck_assert_ptr_nonnull(umem_cache_alloc(asked, 0));
	ck_assert_uint_eq(limits(asked).waits, 1);
}
END_TEST

static uint32_t at_the_lock; /* [atomic] */

static void
note_the_lock(const uint32_t *word)
{
	if (word == &limit_lock.state)
		__atomic_store_n(&at_the_lock, 1, __ATOMIC_RELEASE);
}

/* The thread has found the limit reached, and is not yet in the queue. */
START_TEST(a_free_before_the_queue_is_not_missed)
{
	struct request r = {.n = 1};

	r.cache = asked = create((enum kind)_i, 1, -1);
	take(asked, 0, 1);
	hook_os_futex_wait = note_the_lock;
	lock_take(&limit_lock);
	ck_assert_int_eq(pthread_create(&r.thread, NULL, request, &r), 0);
	wait_until(__atomic_load_n(&at_the_lock, __ATOMIC_ACQUIRE));
	ck_assert_uint_eq(at_the_lock, 1);
	umem_cache_free(asked, held[0]);
	lock_release(&limit_lock);
	ends(&r, 0);
	hook_os_futex_wait = NULL;
}
END_TEST

START_TEST(a_child_has_the_count_and_no_one_waits_in_it)
{
	umem_cache_t *cache = create(PLAIN, 5, -1);
	struct request r;
	int status = -1;
	pid_t child;

	take(cache, 0, 5);
	start_waiting(&r, cache, 2);
	child = fork();
	if (child == 0) {
		limit_time();
		if (limits(cache).in_use != 5 || limits(cache).waiting != 0 ||
		    umem_cache_alloc(cache, UMEM_NOWAIT) != NULL)
			_exit(1);
		umem_cache_free(cache, held[0]);
		/* The child's queue is empty. */
		if (umem_cache_alloc(cache, UMEM_DEFAULT) == NULL)
			_exit(2);
		_exit(limits(cache).in_use == 5 ? 0 : 3);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(limits(cache).waiting, 1);
	umem_cache_free_bulk(cache, 2, held);
	ends(&r, 0);
}
END_TEST

static pid_t forked = -1;

/* A signal handler of the thread that waits, whose time is over meanwhile. */
static void
fork_late(const uint32_t *word)
{
	struct timespec t = {0, 2 * LATE_MS * 1000000};

	(void)word;
	hook_os_futex_wait = NULL;
	nanosleep(&t, NULL);
	forked = fork();
}

static pthread_mutex_t until_over = PTHREAD_MUTEX_INITIALIZER;

static void *
exist(void *unused)
{
	pthread_mutex_lock(&until_over);
	pthread_mutex_unlock(&until_over);
	return unused;
}

/* With another thread, because the child of one thread keeps its queues. */
START_TEST(a_request_that_gives_up_in_a_child_is_in_no_queue_there)
{
	umem_cache_t *cache = create(PLAIN, 1, LATE_MS);
	pthread_t other;
	int status = -1;

	pthread_mutex_lock(&until_over);
	ck_assert_int_eq(pthread_create(&other, NULL, exist, NULL), 0);
	take(cache, 0, 1);
	hook_os_futex_wait = fork_late;
	ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
	if (forked == 0) {
		limit_time();
		if (limits(cache).waiting != 0)
			_exit(1);
		umem_cache_free(cache, held[0]);
		_exit(umem_cache_alloc(cache, UMEM_DEFAULT) ? 0 : 2);
	}
	ck_assert_int_gt(forked, 0);
	ck_assert_int_eq(waitpid(forked, &status, 0), forked);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(limits(cache).waiting, 0);
	pthread_mutex_unlock(&until_over);
	pthread_join(other, NULL);
}
END_TEST

static uint32_t is_stalled; /* [atomic] a reader stays in its section */

static void
synchronize(void)
{
	while (__atomic_load_n(&is_stalled, __ATOMIC_SEQ_CST))
		sched_yield();
}

static int
is_reading(void)
{
	return 0;
}

static void
ignore(void)
{
}

static void
grace_of(const void *key, struct umem_grace *grace)
{
	(void)key;
	*grace = (struct umem_grace){.synchronize = synchronize,
	    .reading = is_reading,
	    .offline = ignore,
	    .online = ignore};
}

/* For each kind of cache, different code finally frees the objects. */
START_TEST(objects_of_deferred_frees_count_until_they_are_free)
{
	umem_cache_t *cache = create((enum kind)_i, 100, -1);
	struct request r;

	take(cache, 0, 100);
	is_stalled = 1;
	for (int i = 0; i < 99; i++)
		ck_assert_int_eq(
		    umem_defer_object(cache, held[i], &is_stalled, grace_of),
		    0);
	ck_assert_uint_eq(limits(cache).in_use, 100);
	fails(cache, UMEM_NOWAIT, EAGAIN);
	start_waiting(&r, cache, 50);
	__atomic_store_n(&is_stalled, 0, __ATOMIC_SEQ_CST);
	ck_assert_int_eq(umem_defer_barrier(&is_stalled), 0);
	ends(&r, 0);
	ck_assert_uint_eq(limits(cache).in_use, 51);
	umem_cache_free_bulk(cache, 50, r.objects);
	umem_cache_free(cache, held[99]);
	ck_assert_uint_eq(limits(cache).in_use, 0);
	umem_cache_destroy(cache);
}
END_TEST

#define SHARED_MAX 40

static umem_cache_t *shared;
static uint32_t nout; /* [atomic] objects held by all threads */
static uint32_t most_out, nserved;

/* Count n more objects as held until this function returns. */
static void
hold(uint32_t n)
{
	uint32_t now = __atomic_add_fetch(&nout, n, __ATOMIC_SEQ_CST);

	if (now > SHARED_MAX)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	if (now > __atomic_load_n(&most_out, __ATOMIC_RELAXED))
		__atomic_store_n(&most_out, now, __ATOMIC_RELAXED);
	__atomic_add_fetch(&nserved, 1, __ATOMIC_RELAXED);
	if (n % 3 == 0)
		sched_yield();
	__atomic_sub_fetch(&nout, n, __ATOMIC_SEQ_CST);
}

static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	void *mine[SHARED_MAX];

	for (int i = 0; i < 3000; i++) {
		size_t n;
		int flags;

		x = x * 1664525 + 1013904223;
		n = 1 + (x >> 16) % (x >> 30 == 0 ? SHARED_MAX : 6);
		flags = (x >> 8) % 4 == 0 ? UMEM_NOWAIT : UMEM_DEFAULT;
		if (n == 1) {
			mine[0] = umem_cache_alloc(shared, flags);
			if (mine[0] == NULL)
				continue;
			hold(1);
			umem_cache_free(shared, mine[0]);
		} else if (umem_cache_alloc_bulk(shared, n, mine, flags) == n) {
			hold((uint32_t)n);
			umem_cache_free_bulk(shared, n, mine);
		}
		if (i % 700 == 0)
			umem_cache_reap_now(shared);
	}
	return NULL;
}

/*
 * The threads wait without a time limit, so a lost wake-up would hang the test.
 */
START_TEST(threads_never_hold_more_than_the_limit)
{
	pthread_t thread[NTHREADS];

	shared = create((enum kind)_i, SHARED_MAX, -1);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_gt(most_out, SHARED_MAX / 2);
	ck_assert_uint_gt(nserved, NTHREADS * 3000 / 2);
	ck_assert_uint_gt(limits(shared).waits, 0);
	ck_assert_uint_eq(limits(shared).in_use, 0);
	ck_assert_uint_eq(limits(shared).waiting, 0);
	umem_cache_destroy(shared);
}
END_TEST

Suite *
limit_suite(void)
{
	Suite *suite = suite_create("limit");
	TCase *tcase = tcase_create("limit");
	const int n = KINDS_OF_CACHE;

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, a_request_beyond_the_limit_fails, 0, n);
	tcase_add_loop_test(tcase, bulk_requests_count_all_or_nothing, 0, n);
	tcase_add_test(tcase, requests_that_find_no_memory_do_not_count);
	tcase_add_test(
	    tcase, an_object_that_is_freed_twice_does_not_count_twice);
	tcase_add_loop_test(
	    tcase, a_request_waits_as_long_as_the_cache_says, 0, n);
	tcase_add_loop_test(tcase, a_free_wakes_a_request_that_waits, 0, n);
	tcase_add_loop_test(tcase, requests_are_served_in_order, 0, n);
	tcase_add_test(tcase, requests_behind_one_that_gives_up_are_served);
	tcase_add_test(tcase, another_limit_is_in_force_at_once);
	tcase_add_test(
	    tcase, requests_behind_the_first_are_refused_by_another_limit);
	tcase_add_test(tcase, caches_that_do_not_count_have_no_limit_to_change);
	tcase_add_loop_test(
	    tcase, a_nofail_request_asks_the_program_at_the_limit, 0, n);
	tcase_add_loop_test(
	    tcase, requests_of_a_cache_that_is_destroyed_fail, 0, n);
	tcase_add_test(tcase, the_arguments_of_limits_are_checked);
	tcase_add_loop_test(tcase, a_free_before_the_sleep_is_not_missed, 0, n);
	tcase_add_loop_test(tcase, a_free_before_the_queue_is_not_missed, 0, n);
	tcase_add_test(tcase, a_child_has_the_count_and_no_one_waits_in_it);
	tcase_add_test(
	    tcase, a_request_that_gives_up_in_a_child_is_in_no_queue_there);
	tcase_add_loop_test(
	    tcase, objects_of_deferred_frees_count_until_they_are_free, 0, n);
	tcase_add_loop_test(
	    tcase, threads_never_hold_more_than_the_limit, 0, n);
	suite_add_tcase(suite, tcase);
	return suite;
}
