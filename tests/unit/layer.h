/*
 * layer.h - a magazine layer for tests, on simulated slabs
 *
 * The slabs are a stack of numbered objects, guarded by a mutex.  Each object
 * has a stamp that tells whether a thread holds the object, so the tests notice
 * an object that is lost or allocated twice.  Each process has one layer, and
 * each test is a process.
 */
#ifndef TESTS_UNIT_LAYER_H
#define TESTS_UNIT_LAYER_H

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "magazine/magazine.h"
#include "tests/unit/owner.h"
#include "tests/unit/rounds.h"
#include "tests/unit/stay.h"
#include "vmem/os.h"

#define NOBJECTS 5000

static struct magazine_layer layer;
static uint32_t stamp[NOBJECTS]; /* [atomic] 1: held by a thread */
static pthread_mutex_t slab_mutex = PTHREAD_MUTEX_INITIALIZER;
static void *slab[NOBJECTS]; /* [slab_mutex] */
static unsigned nslab;       /* [slab_mutex] */
static uint32_t nwrong;      /* [atomic] */

/* Returns false if this mode is not available on this machine. */
static inline bool
start(int mode, size_t object_bytes, unsigned rounds_max)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE && mode != RSEQ_NONE)
		return false;
	stay_here();
	ck_assert(cpu_start((enum rseq_owner)mode, 0));
	ck_assert_int_eq(cpu_layer.rseq.owner, owner_expected(mode));
	memset(&layer, 0, sizeof(layer));
	ck_assert(magazine_layer_init(
	    &layer, object_bytes, rounds_max, CPU_GUARD_NONE));
	return true;
}

/*
 * Replaces the layer by one with nshards shards, or, if nshards is 0, with the
 * default for ncpus CPUs.
 */
static inline void
restart(unsigned nshards, unsigned ncpus)
{
	struct magazine *chain, *next;

	magazine_drain(&layer, false, &chain);
	for (; chain != NULL; chain = next) {
		next = chain->next;
		chain->nrounds = 0;
		magazine_delete(chain);
	}
	magazine_layer_end(&layer);
	memset(&layer, 0, sizeof(layer));
	magazine_depot_shards = nshards;
	cpu_layer.nrun = ncpus;
	/* These magazines do not grow. */
	ck_assert(magazine_layer_init(&layer, 64, 62, CPU_GUARD_NONE));
	ck_assert(nshards == 0 || layer.nshards == nshards);
}

/* Magazines that were put into the shards or taken, modulo 2^32. */
static inline uint32_t
count_moved(void)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < layer.nshards; i++)
		n += magazine_shard(&layer, i)->nmoved;
	return n;
}

static inline void
everywhere(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
}

static inline void
slab_give(void *const *object, unsigned n)
{
	pthread_mutex_lock(&slab_mutex);
	for (unsigned i = 0; i < n; i++)
		if (nslab < NOBJECTS)
			slab[nslab++] = object[i];
		else
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&slab_mutex);
}

static inline unsigned
slab_take(void **object, unsigned want)
{
	unsigned n = 0;

	pthread_mutex_lock(&slab_mutex);
	while (n < want && nslab > 0)
		object[n++] = slab[--nslab];
	pthread_mutex_unlock(&slab_mutex);
	return n;
}

static inline unsigned
flush(struct magazine *chain)
{
	unsigned nrounds = 0;

	while (chain != NULL) {
		struct magazine *mag = chain;

		chain = mag->next;
		nrounds += mag->nrounds;
		slab_give(mag->round, mag->nrounds);
		mag->nrounds = 0;
		magazine_delete(mag);
	}
	return nrounds;
}

static inline void *
refill(unsigned want)
{
	struct magazine *mag = magazine_empty(&layer);
	void *object = NULL;

	if (mag == NULL)
		return slab_take(&object, 1) == 1 ? object : NULL;
	if (want > mag->capacity)
		want = mag->capacity;
	mag->nrounds = slab_take(mag->round, want);
	if (mag->nrounds > 0)
		object = mag->round[--mag->nrounds];
	if (mag->nrounds == 0) {
		magazine_delete(mag);
		mag = NULL;
	}
	if (object != NULL)
		magazine_install(&layer, mag);
	return object;
}

static inline uintptr_t
at(void)
{
	return (uintptr_t)layer.hot - (uintptr_t)cpu_header_none();
}

static inline void *
get(void)
{
	void *object = NULL;
	unsigned want;

	if (cpu_layer.rseq.owner != RSEQ_NONE &&
	    rseq_pop(&cpu_layer.place, at(), &object) == RSEQ_OK)
		return object;
	switch (magazine_get(&layer, &object, &want)) {
	case MAGAZINE_OK:
		return object;
	case MAGAZINE_EMPTY:
		return refill(want);
	default:
		return slab_take(&object, 1) == 1 ? object : NULL;
	}
}

static inline void
put(void *object)
{
	enum magazine_result r;
	struct magazine *spare = NULL;
	unsigned pending = 0;

	if (cpu_layer.rseq.owner != RSEQ_NONE &&
	    rseq_push(&cpu_layer.place, at(), object) == RSEQ_OK)
		return;
	r = magazine_put(&layer, object, &spare, &pending);
	if (r == MAGAZINE_TWICE)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	else if (r != MAGAZINE_OK)
		slab_give(&object, 1);
	if (pending & WORK_SURPLUS) {
		struct magazine *mag = magazine_surplus(&layer);

		if (mag != NULL) {
			mag->next = NULL;
			flush(mag);
		}
	}
}

static inline void
fill_slab(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		slab_give(&(void *){&stamp[i]}, 1);
}

static inline void
take_back_all(void)
{
	struct magazine *chain;

	ck_assert(magazine_drain(&layer, false, &chain));
	flush(chain);
	ck_assert_uint_eq(magazine_rounds(&layer), 0);
}

#endif
