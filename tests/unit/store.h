/*
 * store.h - a store of slabs for tests, without a cache
 *
 * Each process has one store, and each test is a process.
 */
#ifndef TESTS_UNIT_STORE_H
#define TESTS_UNIT_STORE_H

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "umem/slab/slab.h"
#include "vmem/heap.h"

#define MOST     20000
#define NTHREADS 4

static struct slab_store store;
static void *chunks[MOST];
static unsigned n_destructed;
static void *destructed[MOST];

static inline void
destruct(struct slab_store *s, void *object)
{
	/* No lock may be held here.  Otherwise this would not return. */
	lock_take(&s->lock);
	lock_release(&s->lock);
	destructed[n_destructed++] = object;
}

static const struct slab_owner store_owner = {.destruct = destruct};

static inline void
start(size_t chunk, size_t align, bool constructs)
{
	struct slab_layout layout;

	ck_assert(slab_layout(&layout, chunk, align, HEAP_UNIT));
	slab_store_init(&store, &layout, NULL, 0, constructs);
	store.owner = &store_owner;
}

static inline void
check(void)
{
	ck_assert(slab_store_check(&store));
}

static inline unsigned
take_all(unsigned n)
{
	unsigned taken = 0;

	ck_assert_uint_le(n, MOST);
	while (taken < n) {
		unsigned got = slab_take(&store, chunks + taken, n - taken);

		ck_assert_uint_gt(got, 0);
		taken += got;
		check();
	}
	return taken;
}

static inline void
give(void **p, unsigned n)
{
	void *bad;

	ck_assert_int_eq(slab_give(&store, p, n, &bad), SLAB_FINE);
	check();
}

static inline int
by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static inline void
shuffle(void **p, unsigned n)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned j = (unsigned)rand() % i;
		void *x = p[i - 1];

		p[i - 1] = p[j];
		p[j] = x;
	}
}

/* Tests with threads stamp each chunk with the thread that holds it. */

static uint32_t nwrong; /* [atomic] */
static int nchurns = 4000;

/* Takes and gives chunks at random, nchurns times; arg is the stamp. */
static inline void *
churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	void *mine[300], *bad;
	unsigned n = 0;

	for (int i = 0; i < nchurns; i++) {
		unsigned want = 1 + (unsigned)rand_r(&seed) % 60;

		if (rand_r(&seed) % 2 == 0 && n + want <= 300) {
			unsigned got = slab_take(&store, mine + n, want);

			for (unsigned j = n; j < n + got; j++)
				if (__atomic_exchange_n((uintptr_t *)mine[j],
					(uintptr_t)arg, __ATOMIC_RELAXED) != 0)
					nwrong++;
			n += got;
		} else {
			if (want > n)
				want = n;
			shuffle(mine, n);
			for (unsigned j = n - want; j < n; j++)
				if (__atomic_exchange_n((uintptr_t *)mine[j], 0,
					__ATOMIC_RELAXED) != (uintptr_t)arg)
					nwrong++;
			if (slab_give(&store, mine + n - want, want, &bad) !=
			    SLAB_FINE)
				nwrong++;
			n -= want;
		}
		if (i % 64 == 0)
			slab_reap(&store, 0);
	}
	for (unsigned j = 0; j < n; j++)
		*(uintptr_t *)mine[j] = 0;
	if (slab_give(&store, mine, n, &bad) != SLAB_FINE)
		nwrong++;
	return NULL;
}

static inline void
churn_together(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, churn, (void *)(i + 1)),
		    0);
	for (int i = 0; i < 200; i++)
		if (!slab_store_check(&store))
			nwrong++;
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
}

#endif
