/*
 * test_typesafe.c - type-stable caches: UMC_TYPESAFE_BY_RCU
 *
 * A slab of such a cache is released in two steps only: slab_retire() and
 * slab_end_retired().  Between the two the caller waits for readers.  The tests
 * watch the functions that return memory to the heap and to the kernel
 * (hooks.h).  Each test is a separate process.
 */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "tests/unit/hooks.h"
#include "tests/unit/stay.h"
#include "umem/base/page_map.h"
#include "umem/debug/debug.h"
#include "umem/options.h"
#include "umem/upkeep/reclaim.h"
#include "umem/slab/slab_inner.h"
#include "umem/upkeep/update.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/vmem.h"

#define MOST     20000
#define NSLABS   6
#define MAGIC    0x7479706573616665
#define NTHREADS 3

struct object {
	uint64_t magic;
	uint64_t nuses;
	char more[48];
};

static struct slab_store store;
static void *chunks[MOST];
static uint32_t nmade, nunmade, nwrong; /* [atomic] */
static uint32_t nasked;                 /* [atomic] calls of want_retire */

/* Addresses of memory that left the library, in the order of the calls. */
static uintptr_t gone[64];
static uint32_t ngone; /* [atomic] */

static void
count(uint32_t *n)
{
	__atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
}

static uint32_t
get(uint32_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void
has_gone(void *at, size_t bytes)
{
	uint32_t i = __atomic_fetch_add(&ngone, 1, __ATOMIC_RELAXED);

	(void)bytes;
	gone[i % 64] = (uintptr_t)at;
}

static void
watch(void)
{
	ngone = 0;
	hook_heap_freed = has_gone;
	hook_os_purge = has_gone;
}

static bool
is_gone(uintptr_t span)
{
	for (uint32_t i = 0; i < ngone; i++)
		if (gone[i] == span)
			return true;
	return false;
}

/* Tests of slab stores. */

static void
destruct_chunk(struct slab_store *s, void *p)
{
	/* Check that no lock is held: otherwise this would deadlock. */
	lock_take(&s->lock);
	lock_release(&s->lock);
	if (((struct object *)p)->magic != MAGIC)
		count(&nwrong);
	((struct object *)p)->magic = 0;
	count(&nunmade);
}

static void
asked(struct slab_store *s)
{
	lock_take(&s->lock);
	lock_release(&s->lock);
	count(&nasked);
}

static const struct slab_owner store_owner = {
    .destruct = destruct_chunk, .want_retire = asked};

static void
start_with(size_t bytes, bool constructs, vmem_t *source)
{
	struct slab_layout layout;

	ck_assert(slab_layout(&layout, bytes, 16, HEAP_UNIT));
	if (source != NULL)
		layout.colour_step = layout.colour_max = 0;
	slab_store_init(&store, &layout, source, 0, constructs);
	store.is_type_stable = true;
	store.owner = &store_owner;
}

static void
start(bool constructs)
{
	start_with(sizeof(struct object) * 16, constructs, NULL);
}

static void
check(void)
{
	ck_assert(slab_store_check(&store));
}

static void *
take(void)
{
	struct object *object;
	bool raw;

	object = slab_take_one(&store, &raw);
	ck_assert_ptr_nonnull(object);
	if (raw) {
		object->magic = MAGIC;
		nmade++;
		slab_constructed(&store, object);
	}
	return object;
}

static void
give(void **p, unsigned n)
{
	void *bad;

	ck_assert_int_eq(slab_give(&store, p, n, &bad), SLAB_FINE);
	check();
}

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Take all chunks of these slabs.  Returns the chunks per slab; the chunks of
 * slab i start at i times the result.
 */
static unsigned
fill(unsigned nslabs)
{
	unsigned n = store.layout.nchunks;

	for (unsigned i = 0; i < nslabs * n; i++)
		chunks[i] = take();
	qsort(chunks, nslabs * n, sizeof(chunks[0]), by_address);
	ck_assert_uint_eq(store.nslabs, nslabs);
	return n;
}

/* Make NSLABS slabs, all empty. */
static unsigned
fill_and_empty(void)
{
	unsigned n = fill(NSLABS);

	give(chunks, NSLABS * n);
	ck_assert_uint_eq(store.nempty, NSLABS);
	return n;
}

static struct slab *
slab_at(const void *chunk)
{
	return page_map_owner(chunk);
}

START_TEST(no_ordinary_way_releases_a_slab_or_a_page)
{
	unsigned n;

	start(_i);
	watch();
	n = fill_and_empty();
	ck_assert_uint_eq(nasked, 0);
	ck_assert_uint_eq(slab_retire_wanted(&store), UINT_MAX);
	slab_reap(&store, 1);
	ck_assert_uint_eq(nasked, 1);
	ck_assert_uint_eq(slab_retire_wanted(&store), 1);
	slab_reap(&store, 0);
	ck_assert_uint_eq(nasked, 2);
	/* Keep one chunk in use, so that its slab has pages to purge. */
	chunks[0] = take();
	for (int i = 0; i < 3; i++)
		slab_reap_unused(&store);
	ck_assert_uint_eq(page_purge(&store, SIZE_MAX), 0);
	ck_assert_uint_eq(page_purge(&store, SIZE_MAX), 0);
	check();
	ck_assert_uint_eq(ngone, 0);
	ck_assert_uint_eq(nunmade, 0);
	ck_assert_uint_eq(store.nslabs, NSLABS);
	for (unsigned i = 0; i < NSLABS * n; i++)
		ck_assert_ptr_eq(slab_at(chunks[i])->store, &store);
}
END_TEST

START_TEST(a_reap_without_surplus_asks_for_nothing)
{
	start(true);
	fill_and_empty();
	slab_reap(&store, NSLABS);
	/* The first call only counts the empty slabs. */
	store.nunused = 0;
	ck_assert(slab_reap_unused(&store));
	ck_assert_uint_eq(nasked, 0);
	ck_assert_uint_eq(slab_retire_wanted(&store), UINT_MAX);
	/*
	 * All empty slabs have been asked for, so upkeep has nothing more to
	 * do.
	 */
	ck_assert(!slab_reap_unused(&store));
	ck_assert_uint_eq(nasked, 1);
	ck_assert_uint_eq(slab_retire_wanted(&store), 0);
}
END_TEST

START_TEST(slabs_that_were_used_lately_are_not_asked_for)
{
	start(true);
	fill_and_empty();
	slab_reap_unused(&store);
	store.retire_wanted = 0;
	for (int i = 0; i < 2; i++)
		chunks[i] = take();
	/*
	 * Chunks of one slab were taken since the last call, so one of the
	 * slabs that are empty now stays.
	 */
	give(chunks, 2);
	ck_assert_uint_eq(store.nunused, NSLABS - 1);
	ck_assert(slab_reap_unused(&store));
	ck_assert_uint_eq(slab_retire_wanted(&store), 1);
	ck_assert_uint_ne(slab_retire(&store, slab_retire_wanted(&store)), 0);
	ck_assert_uint_eq(store.nempty, 1);
	check();
}
END_TEST

START_TEST(the_least_number_to_keep_counts_until_slabs_are_retired)
{
	start(false);
	fill_and_empty();
	slab_reap(&store, 4);
	slab_reap(&store, 2);
	slab_reap(&store, 3);
	ck_assert_uint_eq(slab_retire_wanted(&store), 2);
	/*
	 * This call keeps more slabs than the noted request, so the request
	 * stays.
	 */
	ck_assert_uint_ne(slab_retire(&store, 5), 0);
	ck_assert_uint_eq(slab_retire_wanted(&store), 2);
	ck_assert_uint_ne(slab_retire(&store, 2), 0);
	ck_assert_uint_eq(slab_retire_wanted(&store), UINT_MAX);
	ck_assert_uint_eq(store.nretired, NSLABS - 2);
	ck_assert_uint_eq(store.nempty, 2);
	check();
}
END_TEST

START_TEST(nobody_gets_a_chunk_of_a_retired_slab)
{
	unsigned n, m;

	start(_i);
	n = fill_and_empty();
	ck_assert_uint_ne(slab_retire(&store, 1), 0);
	check();
	ck_assert_uint_eq(store.nretired, NSLABS - 1);
	ck_assert_uint_eq(slab_total(&store), NSLABS * n);
	ck_assert_uint_eq(slab_nready(&store), n);
	m = slab_take(&store, chunks, 2 * n < MOST ? 2 * n : MOST);
	ck_assert_uint_ge(m, n);
	for (unsigned i = 0; i < m; i++)
		ck_assert_uint_ne(slab_at(chunks[i])->bin, SLAB_BIN_RETIRED);
	for (unsigned i = 0; i < 2 * n; i++)
		ck_assert_uint_ne(slab_at(take())->bin, SLAB_BIN_RETIRED);
	check();
	ck_assert_uint_eq(store.nretired, NSLABS - 1);
}
END_TEST

START_TEST(raw_chunks_of_retired_slabs_are_not_looked_for)
{
	start(true);
	/* Only this chunk was ever taken; the others are raw. */
	chunks[0] = take();
	give(chunks, 1);
	ck_assert_uint_ne(slab_retire(&store, 0), 0);
	ck_assert_uint_eq(store.nraw, 0);
	ck_assert_uint_eq(slab_nready(&store), 0);
	check();
	chunks[1] = take();
	ck_assert_ptr_ne(slab_at(chunks[1]), slab_at(chunks[0]));
	check();
}
END_TEST

START_TEST(slabs_retired_while_readers_are_waited_for_wait_for_the_next)
{
	uint32_t first, second;
	uintptr_t span[NSLABS];
	unsigned n;

	start(true);
	n = fill(NSLABS);
	for (unsigned i = 0; i < NSLABS; i++)
		span[i] = slab_at(chunks[i * n])->span;
	ck_assert_uint_eq(slab_retire(&store, 0), 0);
	give(chunks, 2 * n);
	watch();
	first = slab_retire(&store, 0);
	ck_assert_uint_ne(first, 0);
	/* A grace period begins here. */
	give(chunks + 2 * n, 2 * n);
	second = slab_retire(&store, 0);
	ck_assert_uint_ne(second, 0);
	ck_assert_uint_ne(second, first);
	give(chunks + 4 * n, n);
	check();
	ck_assert_uint_eq(ngone, 0);
	/* The grace period ends here. */
	slab_end_retired(&store, first);
	check();
	ck_assert_uint_eq(ngone, 2);
	ck_assert(is_gone(span[0]) && is_gone(span[1]));
	ck_assert_uint_eq(nunmade, 2 * n);
	ck_assert_uint_eq(store.nretired, 2);
	slab_end_retired(&store, first);
	slab_end_retired(&store, 0);
	ck_assert_uint_eq(ngone, 2);
	slab_end_retired(&store, second);
	check();
	ck_assert_uint_eq(ngone, 4);
	ck_assert(is_gone(span[2]) && is_gone(span[3]));
	ck_assert_uint_eq(nunmade, 4 * n);
	ck_assert_uint_eq(store.nretired, 0);
	/* The fifth slab was never retired. */
	ck_assert_uint_eq(store.nempty, 1);
	ck_assert_uint_eq(slab_retire(&store, UINT_MAX), 0);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_batch_that_nobody_ends_goes_with_a_later_one)
{
	uint32_t lost, again, next;
	unsigned n;

	start(true);
	n = fill(2);
	give(chunks, n);
	lost = slab_retire(&store, 0);
	again = slab_retire(&store, UINT_MAX);
	/*
	 * slab_retire() returns the batch again, so that a caller waits for it.
	 */
	ck_assert_uint_eq(again, lost);
	give(chunks + n, n);
	next = slab_retire(&store, 0);
	slab_end_retired(&store, next);
	check();
	ck_assert_uint_eq(store.nslabs, 0);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

START_TEST(batches_stay_in_order_when_their_numbers_wrap)
{
	uint32_t batch[4];
	unsigned n;

	start(false);
	store.last_batch = UINT32_MAX - 2;
	n = fill(4);
	for (unsigned i = 0; i < 4; i++) {
		give(chunks + i * n, n);
		batch[i] = slab_retire(&store, 0);
		ck_assert_uint_ne(batch[i], 0);
		check();
	}
	slab_end_retired(&store, 0);
	ck_assert_uint_eq(store.nretired, 4);
	for (unsigned i = 0; i < 4; i++) {
		slab_end_retired(&store, batch[i]);
		ck_assert_uint_eq(store.nretired, 3 - i);
		check();
	}
}
END_TEST

START_TEST(a_destructor_runs_once_and_after_the_second_step)
{
	uint32_t batch;
	unsigned n;

	start(true);
	n = fill_and_empty();
	slab_reap(&store, 0);
	batch = slab_retire(&store, 1);
	ck_assert_uint_eq(nunmade, 0);
	for (unsigned i = 0; i < NSLABS * n; i++)
		ck_assert_uint_eq(((struct object *)chunks[i])->magic, MAGIC);
	slab_end_retired(&store, batch);
	ck_assert_uint_eq(nunmade, (NSLABS - 1) * n);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(the_end_of_a_store_ends_retired_slabs_too)
{
	size_t used;
	unsigned n;

	/* The heap keeps tags of freed segments, so they exist before. */
	if (!_i) {
		start(false);
		fill_and_empty();
		ck_assert(slab_store_end(&store));
	}
	used = meta_used();
	start(_i);
	n = fill_and_empty();
	slab_retire(&store, 4);
	slab_retire(&store, 2);
	chunks[0] = take();
	ck_assert(!slab_store_end(&store));
	ck_assert_uint_eq(store.nretired, 0);
	ck_assert_uint_eq(store.nslabs, 1);
	check();
	if (!_i) {
		give(chunks, 1);
		ck_assert(slab_store_end(&store));
		ck_assert_uint_eq(meta_used(), used);
	} else {
		ck_assert_uint_eq(nunmade, NSLABS * n - 1);
	}
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_second_free_into_a_retired_slab_is_found)
{
	void *twice[2], *bad;
	unsigned n;

	start(_i);
	n = fill_and_empty();
	slab_retire(&store, 0);
	twice[0] = chunks[n];
	twice[1] = chunks[n + 1];
	ck_assert_int_eq(slab_round_fault(&store, twice[0]), SLAB_FREE);
	ck_assert_int_eq(slab_give(&store, twice, 1, &bad), SLAB_FREE);
	ck_assert_ptr_eq(bad, twice[0]);
	ck_assert_int_eq(slab_give(&store, twice, 2, &bad), SLAB_FREE);
	check();
	ck_assert_uint_eq(store.nretired, NSLABS);
	ck_assert_uint_eq(store.nempty, 0);
}
END_TEST

/* The page map does not know these slabs.  The hash of their store does. */
START_TEST(retired_slabs_of_a_source_are_found_until_they_end)
{
	vmem_t *ids = vmem_create("ids", (void *)HEAP_UNIT, 1 << 30, HEAP_UNIT,
	    NULL, NULL, NULL, 0, VM_NOSLEEP);
	uint32_t batch;
	void *p[NSLABS], *bad;
	unsigned n, nfound = 0;
	bool raw;

	start_with(1024, false, ids);
	n = store.layout.nchunks;
	for (unsigned i = 0; i < NSLABS * n; i++)
		chunks[i] = slab_take_one(&store, &raw);
	for (unsigned i = 0; i < NSLABS; i++)
		p[i] = chunks[i * n];
	ck_assert_int_eq(slab_give(&store, chunks, NSLABS * n, &bad), 0);
	slab_reap(&store, 0);
	ck_assert_uint_eq(
	    vmem_size(ids, VMEM_ALLOC), NSLABS * store.layout.slab_bytes);
	batch = slab_retire(&store, 2);
	check();
	for (unsigned i = 0; i < NSLABS; i++)
		ck_assert_int_eq(slab_round_fault(&store, p[i]), SLAB_FREE);
	ck_assert_uint_eq(
	    vmem_size(ids, VMEM_ALLOC), NSLABS * store.layout.slab_bytes);
	slab_end_retired(&store, batch);
	check();
	ck_assert_uint_eq(
	    vmem_size(ids, VMEM_ALLOC), 2 * store.layout.slab_bytes);
	for (unsigned i = 0; i < NSLABS; i++)
		nfound += slab_round_fault(&store, p[i]) == SLAB_FREE;
	ck_assert_uint_eq(nfound, 2);
	ck_assert_uint_eq(store.nslabs, 2);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(vmem_size(ids, VMEM_ALLOC), 0);
}
END_TEST

/*
 * Threads that read without locks.  A reader's pass over the objects is its
 * read-side critical section.  A grace period ends when each reader has begun
 * another pass.
 */
#define NTABLE 64

static struct object *table[NTABLE]; /* [atomic] for readers */
static uint32_t passes[NTHREADS];    /* [atomic] count of each reader */
static uint32_t stopped;             /* [atomic] */
static uint32_t nended;              /* [atomic] batches ended */

static void
grace_period(void)
{
	for (unsigned i = 0; i < NTHREADS; i++) {
		/*
		 * Wait for two, because the first pass may have begun before.
		 */
		uint32_t seen = get(&passes[i]);

		while (get(&passes[i]) - seen < 2 && !get(&stopped))
			sched_yield();
	}
}

static void *
reader(void *arg)
{
	uintptr_t self = (uintptr_t)arg;
	unsigned seed = (unsigned)self;

	while (!get(&stopped)) {
		struct object *found[8];

		for (unsigned i = 0; i < 8; i++)
			found[i] = __atomic_load_n(
			    &table[(unsigned)rand_r(&seed) % NTABLE],
			    __ATOMIC_ACQUIRE);
		/*
		 * Long sections, during which updaters free and retire objects.
		 */
		for (unsigned look = 0; look < 20; look++) {
			for (unsigned i = 0; i < 8; i++)
				if (found[i] != NULL &&
				    __atomic_load_n(&found[i]->magic,
					__ATOMIC_RELAXED) != MAGIC)
					count(&nwrong);
			sched_yield();
		}
		__atomic_add_fetch(&passes[self], 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static bool
is_retired(void *chunk)
{
	bool retired;

	lock_take(&store.lock);
	retired = slab_at(chunk)->bin == SLAB_BIN_RETIRED;
	lock_release(&store.lock);
	return retired;
}

/*
 * Take objects, publish them at random places, and free the objects that they
 * replace.
 */
static void *
updater(void *arg)
{
	unsigned seed = 100 + (unsigned)(uintptr_t)arg;
	struct object *mine[256];
	unsigned n = 0;

	while (!get(&stopped)) {
		/*
		 * The number of objects held goes up and down, so that slabs
		 * become empty.
		 */
		while (n < 256) {
			bool raw;
			struct object *p = slab_take_one(&store, &raw);

			if (p == NULL)
				continue;
			if (raw) {
				p->magic = MAGIC;
				slab_constructed(&store, p);
				count(&nmade);
			}
			if (is_retired(p))
				count(&nwrong);
			mine[n++] = p;
		}
		while (n > 0) {
			unsigned at = (unsigned)rand_r(&seed) % NTABLE;
			struct object *p = __atomic_exchange_n(
			    &table[at], mine[--n], __ATOMIC_ACQ_REL);
			void *bad;

			/* Free the object that the new object has replaced. */
			if (p != NULL && slab_give(&store, (void **)&p, 1,
					     &bad) != SLAB_FINE)
				count(&nwrong);
		}
		for (unsigned i = 0; i < NTABLE; i++) {
			void *p = __atomic_exchange_n(
			    &table[i], NULL, __ATOMIC_ACQ_REL);
			void *bad;

			if (p != NULL &&
			    slab_give(&store, &p, 1, &bad) != SLAB_FINE)
				count(&nwrong);
		}
	}
	return NULL;
}

static void *
reaper(void *arg)
{
	(void)arg;
	while (!get(&stopped)) {
		slab_reap(&store, 0);
		slab_reap_unused(&store);
		page_purge(&store, SIZE_MAX);
		sched_yield();
	}
	return NULL;
}

/* Two threads run this: batches of one are retired while the other waits. */
static void *
retirer(void *arg)
{
	(void)arg;
	while (!get(&stopped)) {
		uint32_t batch =
		    slab_retire(&store, slab_retire_wanted(&store));

		if (batch == 0) {
			sched_yield();
			continue;
		}
		grace_period();
		/*
		 * After the stop, readers may leave their sections at any time.
		 */
		if (get(&stopped))
			break;
		slab_end_retired(&store, batch);
		count(&nended);
	}
	return NULL;
}

START_TEST(readers_meet_objects_of_the_type_only)
{
	pthread_t thread[4 * NTHREADS];
	unsigned n = 0;

	start(true);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[n++], NULL, reader, (void *)i);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&thread[n++], NULL, updater, (void *)i);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&thread[n++], NULL, retirer, NULL);
	pthread_create(&thread[n++], NULL, reaper, NULL);
	while (get(&nended) < 20) {
		if (!slab_store_check(&store))
			count(&nwrong);
		sched_yield();
	}
	__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_gt(nunmade, 0);
	check();
	for (unsigned i = 0; i < NTABLE; i++)
		if (table[i] != NULL)
			give((void **)&table[i], 1);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/* Tests of caches. */

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv, (void)flags;
	((struct object *)buf)->magic = MAGIC;
	count(&nmade);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)priv;
	if (((struct object *)buf)->magic != MAGIC)
		count(&nwrong);
	((struct object *)buf)->magic = 0;
	count(&nunmade);
}

static umem_cache_t *
create(bool constructs, unsigned cflags)
{
	umem_cache_t *cache = umem_cache_create("stable", sizeof(struct object),
	    0, constructs ? construct : NULL, constructs ? destruct : NULL,
	    NULL, NULL, NULL, (int)(cflags | UMC_TYPESAFE_BY_RCU));

	ck_assert_ptr_nonnull(cache);
	return cache;
}

static void
use(umem_cache_t *cache, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		chunks[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (unsigned i = 0; i < n; i++) {
		((struct object *)chunks[i])->nuses = i;
		umem_cache_free(cache, chunks[i]);
	}
}

static umem_cache_t *asked_of;

static void
cache_asked(struct slab_store *slabs)
{
	struct umem_cache *cache =
	    container_of(slabs, struct umem_cache, slabs);

	/* Check that no lock is held, of any rank. */
	lock_take(&cache_list_lock);
	lock_take(&cache->slabs.lock);
	lock_release(&cache->slabs.lock);
	lock_release(&cache_list_lock);
	asked_of = cache;
	count(&nasked);
}

/* Call each function of upkeep and of the program that releases memory. */
static void
release_by_all_means(umem_cache_t *cache)
{
	for (int i = 0; i < 3; i++) {
		cache_update(cache, /* may_call */ true);
		cache_update(cache, /* may_call */ false);
		cache_reclaim_idle(cache);
	}
	cache_flush_depot(cache);
	reclaim_check();
	update_reclaim(1, 0, /* may_call */ true);
	umem_reap();
	umem_cache_reap_now(cache);
	ck_assert_int_eq(umem_cache_shrink(cache), 1);
	update_trim();
	page_purge(&cache->slabs, SIZE_MAX);
}

/* Check that no slab of the first n chunks was released. */
static bool
nothing_is_gone(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (is_gone(slab_at(chunks[i])->span))
			return false;
	return true;
}

START_TEST(no_call_releases_memory_of_a_type_stable_cache)
{
	umem_cache_t *cache = create(_i, 0);
	uint32_t nslabs;
	uint32_t batch;

	use(cache, 8000);
	nslabs = cache->slabs.nslabs;
	ck_assert_uint_ge(nslabs, 4);
	watch();
	release_by_all_means(cache);
	ck_assert_uint_eq(cache->slabs.nslabs, nslabs);
	ck_assert_uint_eq(nunmade, 0);
	ck_assert(nothing_is_gone(8000));
	ck_assert_uint_eq(slab_retire_wanted(&cache->slabs), 0);
	for (unsigned i = 0; i < 8000; i++)
		ck_assert_uint_eq(((struct object *)chunks[i])->nuses, i);
	/* The first of the two steps changes nothing that a reader can see. */
	ck_assert_uint_eq(cache->slabs.nempty, nslabs);
	batch = slab_retire(&cache->slabs, slab_retire_wanted(&cache->slabs));
	release_by_all_means(cache);
	ck_assert_uint_eq(cache->slabs.nslabs, nslabs);
	ck_assert_uint_eq(nunmade, 0);
	ck_assert(nothing_is_gone(8000));
	for (unsigned i = 0; i < 8000; i++)
		ck_assert_uint_eq(((struct object *)chunks[i])->nuses, i);
	slab_end_retired(&cache->slabs, batch);
	ck_assert_uint_eq(cache->slabs.nslabs, 0);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_ge(ngone, nslabs);
	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/* Several threads use a cache; one of them also does the two steps. */
static __thread bool ending; /* this thread does the second step */
static umem_cache_t *shared;

static void
is_freed(void *at, size_t bytes)
{
	(void)at;
	if (bytes != shared->slabs.layout.slab_bytes)
		return;
	count(ending ? &ngone : &nwrong);
}

static void
destruct_in_step(void *buf, void *priv)
{
	if (!ending)
		count(&nwrong);
	destruct(buf, priv);
}

static void *
user(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	void *mine[1000];

	while (!get(&stopped)) {
		unsigned n = 1 + (unsigned)rand_r(&seed) % 1000;

		if (n % 2 == 0)
			umem_cache_alloc_bulk(shared, n, mine, UMEM_NOFAIL);
		for (unsigned i = 0; i < n; i++) {
			if (n % 2 != 0)
				mine[i] = umem_cache_alloc(shared, UMEM_NOFAIL);
			if (((struct object *)mine[i])->magic != MAGIC)
				count(&nwrong);
		}
		umem_cache_free_bulk(shared, n / 2, mine);
		for (unsigned i = n / 2; i < n; i++)
			umem_cache_free(shared, mine[i]);
		if (n % 8 == 0)
			umem_cache_reap_now(shared);
		if (n % 8 == 1)
			umem_cache_shrink(shared);
	}
	return NULL;
}

static void *
trimmer(void *arg)
{
	(void)arg;
	while (!get(&stopped)) {
		umem_reap();
		update_trim();
		update_reclaim(1, 0, /* may_call */ false);
		sched_yield();
	}
	return NULL;
}

static void *
ender(void *arg)
{
	(void)arg;
	while (!get(&stopped)) {
		uint32_t batch = slab_retire(
		    &shared->slabs, slab_retire_wanted(&shared->slabs));

		sched_yield();
		ending = true;
		slab_end_retired(&shared->slabs, batch);
		ending = false;
		if (batch != 0)
			count(&nended);
	}
	return NULL;
}

START_TEST(memory_goes_by_the_second_step_only_whatever_threads_do)
{
	pthread_t thread[4];

	shared = umem_cache_create("shared", sizeof(struct object), 0,
	    construct, destruct_in_step, NULL, NULL, NULL,
	    UMC_TYPESAFE_BY_RCU | (_i ? UMC_NOMAGAZINE : 0));
	hook_heap_freed = is_freed;
	pthread_create(&thread[0], NULL, user, (void *)1);
	pthread_create(&thread[1], NULL, user, (void *)2);
	pthread_create(&thread[2], NULL, trimmer, NULL);
	pthread_create(&thread[3], NULL, ender, NULL);
	while (get(&nended) < 20 || get(&ngone) == 0)
		sched_yield();
	__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert(slab_store_check(&shared->slabs));
	ck_assert_uint_eq(nwrong, 0);
	ending = true;
	umem_cache_destroy(shared);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(each_call_that_would_release_memory_asks)
{
	umem_cache_t *cache = create(_i, 0);
	const struct slab_owner asking = {
	    .destruct = cache->slabs.owner->destruct,
	    .want_retire = cache_asked};

	cache->slabs.owner = &asking;
	use(cache, 3000);
	ck_assert_uint_eq(nasked, 0);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(nasked, 1);
	ck_assert_ptr_eq(asked_of, cache);
	umem_cache_shrink(cache);
	ck_assert_uint_eq(nasked, 2);
	umem_reap();
	ck_assert_uint_eq(nasked, 3);
	update_trim();
	ck_assert_uint_eq(nasked, 4);
	update_reclaim(1, 0, /* may_call */ false);
	ck_assert_uint_eq(nasked, 5);
	cache_reclaim_idle(cache);
	ck_assert_uint_eq(nasked, 6);
	cache_update(cache, /* may_call */ false);
	ck_assert_uint_eq(nasked, 7);
	/* After both steps there is nothing to ask for. */
	slab_end_retired(&cache->slabs, slab_retire(&cache->slabs, 0));
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(nasked, 7);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nasked, 7);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

START_TEST(upkeep_leaves_slabs_alone_that_were_used_lately)
{
	umem_cache_t *cache = create(_i, UMC_NOMAGAZINE);

	use(cache, 3000);
	ck_assert_uint_gt(cache->slabs.nempty, 2);
	for (int i = 0; i < 5; i++) {
		cache_update(cache, /* may_call */ true);
		ck_assert_uint_eq(slab_retire_wanted(&cache->slabs), UINT_MAX);
		use(cache, 3000);
	}
}
END_TEST

START_TEST(upkeep_rests_though_empty_slabs_stay)
{
	umem_cache_t *cache = create(_i, 0);
	unsigned n = 0;

	use(cache, 3000);
	cache_drain(cache, false);
	while (cache_update(cache, /* may_call */ true) && ++n < 100)
		;
	ck_assert_uint_lt(n, 100);
	ck_assert_uint_gt(cache->slabs.nempty, 0);
}
END_TEST

START_TEST(depots_of_type_stable_caches_are_no_memory_for_others)
{
	umem_cache_t *cache = create(false, 0);

	use(cache, 8000);
	ck_assert_uint_gt(magazine_in_depot(&cache->mag), 0);
	ck_assert_uint_eq(cache_depot_bytes(cache), 0);
}
END_TEST

START_TEST(objects_stay_constructed_over_all_reuse)
{
	umem_cache_t *cache = create(true, _i ? UMC_NOMAGAZINE : 0);
	uint32_t made;

	stay_here();
	use(cache, 5000);
	umem_cache_reap_now(cache);
	made = nmade;
	use(cache, 5000);
	ck_assert_uint_eq(nmade, made);
	for (unsigned i = 0; i < 5000; i++)
		ck_assert_uint_eq(((struct object *)chunks[i])->magic, MAGIC);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

START_TEST(a_child_of_fork_ends_the_batches_of_its_parent)
{
	umem_cache_t *cache = create(true, 0);
	pid_t child;
	int status;

	use(cache, 3000);
	umem_cache_reap_now(cache);
	ck_assert_uint_ne(slab_retire(&cache->slabs, 1), 0);
	child = fork();
	if (child == 0) {
		umem_cache_reap_now(cache);
		slab_end_retired(
		    &cache->slabs, slab_retire(&cache->slabs,
				       slab_retire_wanted(&cache->slabs)));
		_exit(cache->slabs.nslabs == 0 && nunmade == nmade ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(nunmade, 0);
}
END_TEST

/* Tests of debugged caches. */

static const struct {
	const char *words;
	bool hardened;
	unsigned flags;
} plans[] = {
    {"guards", false, UMF_REDZONE},
    {"audit", false, UMF_AUDIT | UMF_REDZONE},
    {"default", false, UMF_AUDIT | UMF_REDZONE | UMF_CONTENTS},
    {"firewall=1", false, 0},
    {"firewall=1,default", false, UMF_AUDIT | UMF_REDZONE | UMF_CONTENTS},
    {"nosignal", false, UMF_AUDIT | UMF_REDZONE | UMF_CHECKSIGNAL},
    {"verbose", true, UMF_HARDENED},
};

static void
plan(unsigned i)
{
	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	options_parse_debug(plans[i].words);
	if (plans[i].hardened)
		debug.on = debug.hardened = true;
}

START_TEST(debugging_leaves_free_objects_alone)
{
	umem_cache_t *cache;
	uint32_t made;

	plan(_i);
	cache = create(true, 0);
	stay_here();
	ck_assert_uint_eq(cache->debug, plans[_i].flags);
	ck_assert_uint_eq(cache->pattern_bytes, 0);
	ck_assert(!cache->slabs.has_guard_pages);
	watch();
	for (unsigned i = 0; i < 2000; i++) {
		struct object *object = umem_cache_alloc(cache, UMEM_DEFAULT);

		chunks[i] = object;
		object->nuses = i;
		memset(object->more, 7, sizeof(object->more));
	}
	made = nmade;
	ck_assert_uint_eq(made, 2000);
	for (unsigned i = 0; i < 2000; i++)
		umem_cache_free(cache, chunks[i]);
	release_by_all_means(cache);
	for (unsigned i = 0; i < 2000; i++) {
		const struct object *object = chunks[i];

		ck_assert_uint_eq(object->magic, MAGIC);
		ck_assert_uint_eq(object->nuses, i);
		for (unsigned j = 0; j < sizeof(object->more); j++)
			ck_assert_int_eq(object->more[j], 7);
	}
	ck_assert(nothing_is_gone(2000));
	/* A new allocation does not construct the objects either. */
	for (unsigned i = 0; i < 2000; i++) {
		const struct object *object =
		    umem_cache_alloc(cache, UMEM_DEFAULT);

		ck_assert_uint_eq(object->magic, MAGIC);
		ck_assert_int_eq(object->more[0], 7);
		chunks[i] = (void *)(uintptr_t)object;
	}
	ck_assert_uint_eq(nmade, made);
	ck_assert_uint_eq(nunmade, 0);
	for (unsigned i = 0; i < 2000; i++)
		umem_cache_free(cache, chunks[i]);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, made);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static unsigned planned;

static void
overrun(void)
{
	umem_cache_t *cache;
	char *p;

	plan(planned);
	cache = create(true, 0);
	p = umem_cache_alloc(cache, UMEM_DEFAULT);
	p[sizeof(struct object)] = 1;
	umem_cache_free(cache, p);
}

static void
free_twice(void)
{
	umem_cache_t *cache;
	void *p;

	plan(planned);
	cache = create(true, 0);
	p = umem_cache_alloc(cache, UMEM_DEFAULT);
	umem_cache_free(cache, p);
	umem_cache_free(cache, p);
}

START_TEST(debugging_still_finds_overruns_and_second_frees)
{
	planned = (unsigned)_i;
	if ((plans[_i].flags & (UMF_REDZONE | UMF_HARDENED)) != 0) {
		ck_assert_ptr_nonnull(
		    strstr(child_writes(overrun), "past end of buffer"));
		ck_assert(child_aborted());
	}
	child_writes(free_twice);
	ck_assert(child_aborted());
}
END_TEST

START_TEST(zeros_are_refused_and_nothing_else_that_makes_sense)
{
	umem_cache_t *cache = create(false, 0);

	errno = 0;
	ck_assert_ptr_null(umem_cache_zalloc(cache, UMEM_DEFAULT));
	ck_assert_int_eq(errno, EINVAL);
	create(false, UMC_NOTOUCH);
	create(false, UMC_NODEBUG | UMC_NOHASH);
	create(true, UMC_NOMAGAZINE);
}
END_TEST

Suite *
typesafe_suite(void)
{
	Suite *suite = suite_create("typesafe");
	TCase *stores = tcase_create("stores");
	TCase *caches = tcase_create("caches");
	TCase *debugged = tcase_create("debugged");

	tcase_add_loop_test(
	    stores, no_ordinary_way_releases_a_slab_or_a_page, 0, 2);
	tcase_add_test(stores, a_reap_without_surplus_asks_for_nothing);
	tcase_add_test(stores, slabs_that_were_used_lately_are_not_asked_for);
	tcase_add_test(
	    stores, the_least_number_to_keep_counts_until_slabs_are_retired);
	tcase_add_loop_test(
	    stores, nobody_gets_a_chunk_of_a_retired_slab, 0, 2);
	tcase_add_test(stores, raw_chunks_of_retired_slabs_are_not_looked_for);
	tcase_add_test(stores,
	    slabs_retired_while_readers_are_waited_for_wait_for_the_next);
	tcase_add_test(stores, a_batch_that_nobody_ends_goes_with_a_later_one);
	tcase_add_test(stores, batches_stay_in_order_when_their_numbers_wrap);
	tcase_add_test(
	    stores, a_destructor_runs_once_and_after_the_second_step);
	tcase_add_loop_test(
	    stores, the_end_of_a_store_ends_retired_slabs_too, 0, 2);
	tcase_add_loop_test(
	    stores, a_second_free_into_a_retired_slab_is_found, 0, 2);
	tcase_add_test(
	    stores, retired_slabs_of_a_source_are_found_until_they_end);
	tcase_add_test(stores, readers_meet_objects_of_the_type_only);
	tcase_set_timeout(stores, 300);
	suite_add_tcase(suite, stores);

	tcase_add_loop_test(
	    caches, no_call_releases_memory_of_a_type_stable_cache, 0, 2);
	tcase_add_loop_test(caches,
	    memory_goes_by_the_second_step_only_whatever_threads_do, 0, 2);
	tcase_add_loop_test(
	    caches, each_call_that_would_release_memory_asks, 0, 2);
	tcase_add_loop_test(
	    caches, upkeep_leaves_slabs_alone_that_were_used_lately, 0, 2);
	tcase_add_loop_test(caches, upkeep_rests_though_empty_slabs_stay, 0, 2);
	tcase_add_test(
	    caches, depots_of_type_stable_caches_are_no_memory_for_others);
	tcase_add_loop_test(
	    caches, objects_stay_constructed_over_all_reuse, 0, 2);
	tcase_add_test(caches, a_child_of_fork_ends_the_batches_of_its_parent);
	tcase_add_test(
	    caches, zeros_are_refused_and_nothing_else_that_makes_sense);
	tcase_set_timeout(caches, 300);
	suite_add_tcase(suite, caches);

	tcase_add_loop_test(debugged, debugging_leaves_free_objects_alone, 0,
	    (int)array_size(plans));
	tcase_add_loop_test(debugged,
	    debugging_still_finds_overruns_and_second_frees, 0,
	    (int)array_size(plans));
	tcase_set_timeout(debugged, 300);
	suite_add_tcase(suite, debugged);
	return suite;
}
