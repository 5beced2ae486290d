/*
 * test_defer_order.c - deferred frees with a flavour of the tests' own
 *
 * Its readers hold a lock, and a grace period takes that lock for writing.  A
 * sanitizer therefore sees the order that a grace period establishes, which it
 * cannot see in liburcu.  Readers and owners access nodes with plain loads and
 * stores.  The sanitizer therefore reports a node that its next owner writes
 * before the grace period of its readers has ended.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/time_limit.h"
#include "umem/cache/cache.h"
#include "umem/rcu/defer.h"
#include "umem/rcu/defer_api.h"
#include "umem/stats/stats.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define NSLOTS    8
#define NREADERS  3
#define NUPDATERS 3
#define NUPDATES  2000
#define NOBJECTS  4000
#define NREQUESTS 8 /* one of the first 8 requests is refused */
#define LARGE     (9 * MIB)

struct node {
	uint64_t number, again;
};

/* How a node is allocated and freed. */
enum source {
	OBJECT,
	SIZED,
	SINGLE, /* a block of its own, above all size classes */
	BLOCK,
	NSOURCES
};

static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static unsigned nwriters; /* [a] threads in synchronize() */
static _Thread_local unsigned depth;
static const char key; /* of the flavour */
static umem_cache_t *cache;
static unsigned nmade, ngone; /* [a] */
static unsigned nperiods;     /* [a] */
static struct node *slot[NSOURCES][NSLOTS];
static uint64_t last_number;     /* [a] */
static uint32_t stop, nsections; /* [a] */

static void
section_begin(void)
{
	/* Otherwise successive readers keep a writer waiting. */
	while (__atomic_load_n(&nwriters, __ATOMIC_RELAXED) != 0)
		sched_yield();
	pthread_rwlock_rdlock(&readers);
	depth++;
}

static void
section_end(void)
{
	depth--;
	pthread_rwlock_unlock(&readers);
}

static void
synchronize(void)
{
	__atomic_add_fetch(&nwriters, 1, __ATOMIC_RELAXED);
	pthread_rwlock_wrlock(&readers);
	pthread_rwlock_unlock(&readers);
	__atomic_sub_fetch(&nwriters, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&nperiods, 1, __ATOMIC_RELAXED);
}

static int
reading(void)
{
	return depth != 0;
}

/* Readers of this flavour need not go offline. */
static void
stay(void)
{
}

static void
grace_of(const void *of, struct umem_grace *grace)
{
	ck_assert_ptr_eq(of, &key);
	*grace = (struct umem_grace){
	    .synchronize = synchronize,
	    .reading = reading,
	    .offline = stay,
	    .online = stay,
	};
}

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	memset(buf, 0, sizeof(struct node));
	__atomic_add_fetch(&nmade, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)buf;
	(void)priv;
	__atomic_add_fetch(&ngone, 1, __ATOMIC_RELAXED);
}

static void
setup(void)
{
	cache = umem_cache_create("nodes", sizeof(struct node), 0, construct,
	    destruct, NULL, NULL, NULL, 0);
	ck_assert_ptr_nonnull(cache);
}

static size_t
size_of(enum source source)
{
	return source == SINGLE ? LARGE : 100;
}

/* Returns NULL if there is no memory. */
static void *
take(enum source source)
{
	switch (source) {
	case OBJECT:
		return umem_cache_alloc(cache, UMEM_DEFAULT);
	case BLOCK:
		return malloc(size_of(source));
	default:
		return umem_alloc(size_of(source), UMEM_DEFAULT);
	}
}

static int
defer(enum source source, void *p)
{
	switch (source) {
	case OBJECT:
		return umem_defer_object(cache, p, &key, grace_of);
	case BLOCK:
		return umem_defer_block(p, free, NULL, &key, grace_of);
	default:
		return umem_defer_sized(p, size_of(source), &key, grace_of);
	}
}

static void
release(enum source source, void *p)
{
	if (source == OBJECT)
		umem_cache_free(cache, p);
	else if (source == BLOCK)
		free(p);
	else
		umem_free(p, size_of(source));
}

static struct node *
node_new(enum source source)
{
	struct node *node = take(source);

	ck_assert_ptr_nonnull(node);
	node->number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
	node->again = ~node->number;
	return node;
}

static void *
read_always(void *arg)
{
	for (unsigned i = (unsigned)(uintptr_t)arg;
	     !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		struct node *node;
		uint64_t number;

		section_begin();
		node =
		    __atomic_load_n(&slot[i % NSOURCES][i / NSOURCES % NSLOTS],
			__ATOMIC_ACQUIRE);
		number = node->number;
		if (i % 8 == 0)
			sched_yield();
		ck_assert_uint_eq(node->again, ~number);
		ck_assert_uint_eq(node->number, number);
		section_end();
		__atomic_add_fetch(&nsections, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* One of the three threads frees within read-side sections. */
static void *
update(void *arg)
{
	bool reads = arg == NULL;

	for (unsigned i = (unsigned)(uintptr_t)arg; i < NUPDATES; i++) {
		enum source source = i % NSOURCES;
		struct node *node;

		if (source == SINGLE && i % 64 > NSOURCES)
			continue;
		node = node_new(source);
		if (reads)
			section_begin();
		node = __atomic_exchange_n(&slot[source][i / NSOURCES % NSLOTS],
		    node, __ATOMIC_ACQ_REL);
		while (defer(source, node) != 0) {
			ck_assert(reads && errno == EAGAIN);
			section_end();
			sched_yield();
			section_begin();
		}
		if (reads)
			section_end();
		if (i % 256 == 255)
			ck_assert_int_eq(umem_defer_barrier(&key), 0);
	}
	return NULL;
}

START_TEST(a_reader_and_the_next_owner_are_ordered)
{
	pthread_t reader[NREADERS], updater[NUPDATERS];

	for (int i = 0; i < NSOURCES * NSLOTS; i++)
		slot[i % NSOURCES][i / NSOURCES] = node_new(i % NSOURCES);
	for (uintptr_t i = 0; i < NREADERS; i++)
		ck_assert_int_eq(pthread_create(&reader[i], NULL, read_always,
				     (void *)(i * 11)),
		    0);
	for (uintptr_t i = 0; i < NUPDATERS; i++)
		ck_assert_int_eq(
		    pthread_create(&updater[i], NULL, update, (void *)i), 0);
	for (int i = 0; i < NUPDATERS; i++)
		pthread_join(updater[i], NULL);
	wait_until(__atomic_load_n(&nsections, __ATOMIC_RELAXED) > 100);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NREADERS; i++)
		pthread_join(reader[i], NULL);
	ck_assert_uint_gt(__atomic_load_n(&nperiods, __ATOMIC_RELAXED), 0);
	for (int i = 0; i < NSOURCES * NSLOTS; i++)
		ck_assert_int_eq(
		    defer(i % NSOURCES, slot[i % NSOURCES][i / NSOURCES]), 0);
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

/*
 * Defers the first free of each source, then enough to fill magazines.  Returns
 * the number of refused frees.
 */
static unsigned
defer_all(void *object[NSOURCES][NOBJECTS])
{
	unsigned nrefused = 0;

	for (unsigned i = 0; i < NSOURCES * NOBJECTS; i++) {
		enum source source = i % NSOURCES;
		void *p = object[source][i / NSOURCES];

		if (p == NULL)
			continue;
		errno = 1234;
		if (defer(source, p) == 0) {
			ck_assert_int_eq(errno, 1234);
			continue;
		}
		ck_assert_int_eq(errno, EAGAIN);
		release(source, p);
		nrefused++;
	}
	return nrefused;
}

/*
 * Uses up the free metadata, so that the library must ask the kernel for each
 * further structure.
 */
static void
use_up_meta(void)
{
	os_fail_nth(1, 1u << 30);
	for (size_t bytes = 16 * KIB; bytes >= 16; bytes /= 2)
		while (meta_alloc(bytes) != NULL)
			;
	os_fail_nth(0, 0);
}

/*
 * The kernel refuses one of the library's first requests for memory, or all
 * requests from that one on.  Both cases run inside and outside of a section.
 */
START_TEST(a_refused_request_loses_nothing)
{
	static void *object[NSOURCES][NOBJECTS];
	unsigned nth = 1 + (unsigned)_i / 4;
	bool reads = _i % 2 != 0, all = _i / 2 % 2 != 0;
	unsigned before, nrefused;

	for (unsigned i = 0; i < NSOURCES * NOBJECTS; i++)
		if (i % NSOURCES != SINGLE || i < 8 * NSOURCES)
			ck_assert_ptr_nonnull(
			    object[i % NSOURCES][i / NSOURCES] =
				take(i % NSOURCES));
	use_up_meta();
	if (reads)
		section_begin();
	before = os_requests();
	os_fail_nth(nth, all ? 1u << 30 : 1);
	nrefused = defer_all(object);
	os_fail_nth(0, 0);
	ck_assert_uint_gt(os_requests(), before);
	/* Outside, only memory for the flavour itself can be missing. */
	ck_assert(nrefused == 0 || reads || nth == 1);
	if (nth == 1 && reads && all)
		ck_assert_uint_gt(nrefused, 0);
	if (reads)
		section_end();
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

static unsigned nreleased; /* [a] */

/* Called after a grace period.  It may defer, but cannot wait for itself. */
static void
release_and_defer(void *p)
{
	if (umem_defer_barrier(&key) == 0 || errno != EDEADLK)
		abort();
	if (*(char *)p == 1) {
		*(char *)p = 2;
		if (umem_defer_block(
			p, release_and_defer, NULL, &key, grace_of) != 0)
			abort();
		return;
	}
	free(p);
	__atomic_add_fetch(&nreleased, 1, __ATOMIC_RELAXED);
}

START_TEST(a_release_function_may_defer)
{
	for (int i = 0; i < 1000; i++) {
		char *p = malloc(10);

		*p = 1;
		ck_assert_int_eq(umem_defer_block(p, release_and_defer, NULL,
				     &key, grace_of),
		    0);
	}
	/* The second frees were deferred during the first barrier. */
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	ck_assert_uint_eq(nreleased, 1000);
}
END_TEST

static void
look_at_nodes(const struct stats_cache *stats, void *arg)
{
	if (strcmp(stats->name, "nodes") == 0)
		*(struct stats_cache *)arg = *stats;
}

START_TEST(objects_that_wait_are_not_live)
{
	struct stats_cache stats = {0};
	void *p[100];

	for (int i = 0; i < 100; i++)
		ck_assert_ptr_nonnull(p[i] = take(OBJECT));
	section_begin();
	for (int i = 0; i < 60; i++)
		ck_assert_int_eq(defer(OBJECT, p[i]), 0);
	ck_assert_uint_eq(defer_waiting(cache), 60);
	ck_assert_uint_eq(cache_live(cache), 40);
	stats_each_cache(look_at_nodes, &stats);
	ck_assert_uint_eq(stats.nwaiting, 60);
	ck_assert_uint_eq(stats.nlive, 40);
	section_end();
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	ck_assert_uint_eq(defer_waiting(cache), 0);
	ck_assert_uint_eq(cache_live(cache), 40);
	for (int i = 60; i < 100; i++)
		release(OBJECT, p[i]);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
}
END_TEST

Suite *
defer_order_suite(void)
{
	Suite *suite = suite_create("defer_order");
	TCase *tcase = tcase_create("defer_order");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, a_reader_and_the_next_owner_are_ordered);
	tcase_add_loop_test(
	    tcase, a_refused_request_loses_nothing, 0, 4 * NREQUESTS);
	tcase_add_test(tcase, a_release_function_may_defer);
	tcase_add_test(tcase, objects_that_wait_are_not_live);
	suite_add_tcase(suite, tcase);
	return suite;
}
