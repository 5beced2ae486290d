/*
 * cache.c - object caches: magazines and slabs together
 *
 * In a cache with a constructor or destructor, an allocation that finds no
 * constructed object takes one raw chunk from the slabs, constructs it and
 * returns it.  From then on the object moves between the program and the
 * magazines and stays constructed.  Surplus magazines return it to its slab,
 * still constructed, and a magazine may be filled with it again.  It is
 * destructed before its slab is destroyed.
 *
 * No object is constructed in advance.  Because a constructor may open a file
 * or allocate a mebibyte, its failure must be the result of the one request
 * that needed the object.
 *
 * A miss of the magazine layer is a return code, and this file decides:
 *	empty		Take as many objects from the slabs as the result says:
 *			one for the caller, the others in a magazine, which is
 *			loaded.  If the slabs have no constructed object,
 *			construct one object.
 *	bypass		Another thread owns the header, or this thread cannot
 *			run sections: allocate one object from its slab, or free
 *			it to its slab.
 *	full		There was no memory for a magazine: as for bypass, so a
 *			free never needs memory.
 *
 * Constructors and destructors run with no lock held, no header owned and no
 * magazine in hand; they may use other caches.  If a constructor is left by
 * longjmp() or an exception, its one chunk stays unused until the cache is
 * destroyed, and nothing else is affected (slab.c).
 *
 * Misuse that is detected here (a chunk that is free already, an address inside
 * an object) is reported under the name that the caller passes.
 *
 * cache_create.c creates and destroys caches.
 *
 * Source: Bonwick 1994 section 3, Bonwick and Adams 2001 section 3.
 */
#include "umem/cache/cache.h"
#include "umem/cache/cache_hooks.h"
#include "umem/base/checker.h"
#include "umem/cache/misuse.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

void
cache_check_poison(struct umem_cache *cache, const char *function)
{
	if (unlikely(cache->destroyed))
		panic("%s(%s): cache was destroyed", function, cache->name);
}

void
cache_tell_alloc(struct umem_cache *cache, void *object)
{
	if (cache->slabs.is_type_stable)
		checker_stable_object(cache, object, cache->bufsize);
	else
		checker_object(cache, object, cache->bufsize,
		    /* constructed */ cache->construct != NULL);
}

void
cache_tell_free(struct umem_cache *cache, void *object)
{
	if (cache->slabs.is_type_stable)
		checker_stable_object_end(cache, object);
	else
		checker_object_end(cache, object, cache->bufsize);
}

bool
cache_drain(struct umem_cache *cache, bool unused)
{
	struct magazine *chain;
	bool all;

	cache_debugger.release(cache);
	if (!cache->has_magazines)
		return true;
	cache_close_gate(cache);
	all = magazine_drain(&cache->mag, unused, &chain);
	cache_flush(cache, chain);
	cache_open_gate(cache);
	return all;
}

/*
 * Takes up to want objects from the backend: one to return, the others in a
 * magazine.  Returns NULL if there is no memory, or no object is ready.
 */
static void *
fill_magazine(struct umem_cache *cache, unsigned want)
{
	struct magazine *mag = NULL;
	void *object, **rounds = &object;
	unsigned n;

	want = cache->backend->nready(cache, want);
	if (want == 0)
		return NULL;
	if (want > 1) {
		mag = magazine_empty(&cache->mag);
		if (mag == NULL)
			return NULL;
		rounds = mag->round;
		want = (unsigned)size_min(want, mag->capacity);
	}
	n = cache->backend->take(cache, rounds, want);
	probe_fire(umem, refill, &cache->mag, cache->name, want, n);
	if (n != 0)
		object = rounds[n - 1];
	if (mag != NULL && n > 1)
		mag->nrounds = n - 1;
	else if (mag != NULL)
		magazine_delete(mag);
	if (n == 0)
		return NULL;
	magazine_install(&cache->mag, n > 1 ? mag : NULL);
	return object;
}

/* Bypasses the magazines: takes one object from the backend. */
static void *
alloc_bypass(struct umem_cache *cache)
{
	void *object;

	cache_close_gate(cache);
	object = cache->backend->take_one(cache, 1);
	cache_open_gate(cache);
	return object;
}

/* Allocates after the section has failed, or if sections are not in use. */
static void *
cache_alloc_missed(struct umem_cache *cache, unsigned *work)
{
	void *object;
	unsigned want;

	if (unlikely(cache->mag.hot == cpu_header_none()))
		return alloc_bypass(cache);
	switch (magazine_get(&cache->mag, &object, &want)) {
	case MAGAZINE_OK:
		return object;
	case MAGAZINE_MARKED:
		*work |= WORK_MARKED;
		return object;
	case MAGAZINE_EMPTY:
		cache_close_gate(cache);
		object = fill_magazine(cache, want);
		if (object == NULL)
			object = cache->backend->take_one(cache, want);
		cache_open_gate(cache);
		if (object != NULL)
			*work |= WORK_POLL;
		break;
	default:
		object = alloc_bypass(cache);
		break;
	}
	if (unlikely(magazine_marks_one(&cache->mag)))
		*work |= WORK_MARKED;
	return object;
}

void
cache_choose_fast(struct umem_cache *cache)
{
	bool closed = cache->debug != 0 || cache->limit.counts ||
		      reserve_is_short(cache) || cache->is_sampled;

	store_relaxed(&cache->fast_at, closed ? 0 : cache_header_at(cache));
}

/*
 * Has the fast path tried the section on a header other than the cache's own?
 * Then the slow path tries it, if there are sections.
 */
static inline bool
is_closed(const struct umem_cache *cache)
{
	return unlikely(cache_fast_at(cache) != cache_header_at(cache)) &&
	       cpu_layer.rseq.owner != RSEQ_NONE;
}

void *
cache_alloc_slow(struct umem_cache *cache, unsigned *work)
{
	cache_check_poison(cache, "umem_cache_alloc");
	if (unlikely(cache->debug != 0))
		return cache_debugger.alloc(cache, cache->bufsize, API_OBJECT);
	return cache_alloc_unchecked(cache, work);
}

void *
cache_alloc_unchecked(struct umem_cache *cache, unsigned *work)
{
	void *object;

	if (is_closed(cache) && rseq_pop(&cpu_layer.place,
				    cache_header_at(cache), &object) == RSEQ_OK)
		return object;
	return cache_alloc_missed(cache, work);
}

static void
flush_one(struct umem_cache *cache, struct magazine *mag, const char *function)
{
	cache->backend->give(cache, mag->round, mag->nrounds, function);
	mag->nrounds = 0;
	magazine_delete(mag);
}

const char *
cache_freed_by(const struct umem_cache *cache)
{
	return cache->class != 0 ? "free" : "umem_cache_free";
}

void
cache_flush(struct umem_cache *cache, struct magazine *chain)
{
	while (chain != NULL) {
		struct magazine *mag = chain;

		chain = mag->next;
		flush_one(cache, mag, cache_freed_by(cache));
	}
}

static void
flush_surplus(struct umem_cache *cache, const char *function)
{
	struct magazine *mag;

	cache_close_gate(cache);
	mag = magazine_surplus(&cache->mag);
	if (mag != NULL)
		flush_one(cache, mag, function);
	cache_open_gate(cache);
}

/* Flushes the surplus that magazine_put() has reported in *work, if any. */
static void
finish_put(struct umem_cache *cache, const char *function, unsigned *work)
{
	if ((*work & WORK_SURPLUS) == 0)
		return;
	flush_surplus(cache, function);
	*work = (*work & ~WORK_SURPLUS) | WORK_POLL;
}

/*
 * Returns a magazine with rounds for the first free of a small object on this
 * CPU, which has no magazine (see "Cold CPU" in magazine.c); otherwise NULL.
 */
static struct magazine *
magazine_for_cold_cpu(struct umem_cache *cache)
{
	struct magazine *mag;

	if (cache->slabs.layout.chunk >= CACHE_LINE ||
	    cache->slabs.constructs ||
	    likely(!cpu_seems_closed(cache->mag.hot)))
		return NULL;
	mag = magazine_new(&cache->mag);
	if (mag == NULL)
		return NULL;
	mag->capacity = (uint16_t)size_min(mag->size, cache->mag.rounds_base);
	mag->nrounds = slab_take(&cache->slabs, mag->round, mag->capacity - 1u);
	return mag;
}

/* Bypasses the magazines: gives an object to the backend. */
static void
free_bypass(struct umem_cache *cache, void *object, const char *function)
{
	cache_close_gate(cache);
	cache->backend->give(cache, &object, 1, function);
	cache_open_gate(cache);
}

void
cache_take_back_one(
    struct umem_cache *cache, void *object, const char *function)
{
	free_bypass(cache, object, function);
	cache_count_off(cache, 1);
}

void
cache_take_back(struct umem_cache *cache, struct magazine *mag)
{
	size_t n = mag->nrounds;

	if (magazine_give(&cache->mag, mag)) {
		flush_surplus(cache, cache_freed_by(cache));
		cache_upkeep.run(WORK_POLL);
	}
	cache_count_off(cache, n);
}

/* Frees after the section has failed, or if sections are not in use. */
static void
cache_free_missed(struct umem_cache *cache, void *object, const char *function,
    unsigned *work)
{
	struct magazine *spare;
	enum magazine_result result;

	if (unlikely(cache->mag.hot == cpu_header_none())) {
		free_bypass(cache, object, function);
		return;
	}
	if (cache->has_heap_slabs) {
		enum slab_fault fault = slab_round_fault(&cache->slabs, object);

		if (unlikely(fault != SLAB_FINE))
			misuse_slab(function, cache, object, fault);
	}
	spare = magazine_for_cold_cpu(cache);
	result = magazine_put(&cache->mag, object, &spare, work);
	if (unlikely(spare != NULL))
		flush_one(cache, spare, function);
	if (result == MAGAZINE_TWICE)
		misuse_slab(function, cache, object, SLAB_FREE);
	else if (result != MAGAZINE_OK)
		free_bypass(cache, object, function);
	finish_put(cache, function, work);
}

void
cache_free_unchecked(struct umem_cache *cache, void *object,
    const char *function, unsigned *work)
{
	if (!is_closed(cache) || rseq_push(&cpu_layer.place,
				     cache_header_at(cache), object) != RSEQ_OK)
		cache_free_missed(cache, object, function, work);
}

bool
cache_free_slow(struct umem_cache *cache, void *object, const char *function,
    unsigned *work)
{
	cache_check_poison(cache, function);
	if (unlikely(cache->debug != 0))
		return cache_debugger.free(cache, object, SIZE_MAX, API_OBJECT);
	cache_free_unchecked(cache, object, function, work);
	return true;
}

/*
 * True if single calls only move objects, without checks.  Then bulk calls may
 * move magazines.
 */
static inline bool
moves_in_bulk(const struct umem_cache *cache)
{
	return cache->mag.hot != cpu_header_none() && cache->debug == 0;
}

size_t
cache_get_bulk(struct umem_cache *cache, void **objects, size_t n)
{
	unsigned want = n < MAGAZINE_BULK ? (unsigned)n : MAGAZINE_BULK;
	unsigned got = 0, work = 0;

	if (likely(moves_in_bulk(cache))) {
		got = magazine_get_bulk(&cache->mag, objects, want);
		if (got == 0) {
			magazine_refilled(&cache->mag);
			got = cache->backend->take_bulk(cache, objects, want);
			work = WORK_POLL;
		}
	}
	/*
	 * One object by a single call: the cache is debugged, the object has to
	 * be constructed now, or this is the last attempt before a failure.
	 */
	if (got == 0 && (objects[0] = cache_alloc_slow(cache, &work)) != NULL)
		got = 1;
	if (work != 0)
		cache_upkeep.run(work);
	return got;
}

/*
 * Puts some of n objects into magazines and returns their number.  *work is as
 * for magazine_put(); *nnull counts the objects that are NULL.
 */
static unsigned
magazines_put(struct umem_cache *cache, void *const *objects, unsigned n,
    const char *function, unsigned *work, size_t *nnull)
{
	unsigned put = n;
	enum magazine_result result =
	    magazine_put_bulk(&cache->mag, objects, &put, work);

	if (put != 0)
		return put;
	if (result != MAGAZINE_TWICE)
		free_bypass(cache, objects[0], function);
	else if (objects[0] != NULL)
		misuse_slab(function, cache, objects[0], SLAB_FREE);
	else
		++*nnull;
	return 1;
}

/* Frees n objects by single calls; *nkept counts those that were not freed. */
static unsigned
free_each(struct umem_cache *cache, void *const *objects, unsigned n,
    const char *function, size_t *nkept, unsigned *work)
{
	for (unsigned i = 0; i < n; i++)
		if (objects[i] == NULL ||
		    !cache_free_slow(cache, objects[i], function, work))
			++*nkept;
	return n;
}

size_t
cache_put_bulk(struct umem_cache *cache, void *const *objects, size_t n,
    const char *function)
{
	size_t nfreed = n, nkept = 0;
	unsigned work = 0;

	while (n > 0) {
		unsigned put = n < MAGAZINE_BULK ? (unsigned)n : MAGAZINE_BULK;

		if (likely(moves_in_bulk(cache)))
			put = magazines_put(
			    cache, objects, put, function, &work, &nkept);
		else
			put = free_each(
			    cache, objects, put, function, &nkept, &work);
		objects += put;
		n -= put;
		finish_put(cache, function, &work);
	}
	if (work != 0)
		cache_upkeep.run(work);
	return nfreed - nkept;
}

void
cache_reap(struct umem_cache *cache)
{
	cache_drain(cache, false);
	cache->backend->reap(cache);
}

void
cache_drain_idle(struct umem_cache *cache)
{
	struct magazine *chain;

	if (cache->has_magazines) {
		magazine_drain_all(&cache->mag, &chain);
		cache_flush(cache, chain);
	}
}

bool
cache_update(struct umem_cache *cache, bool may_call)
{
	uint32_t nacquired = load_relaxed(&cache->slabs.nacquired);
	struct magazine *chain = NULL;
	bool busy;

	cache->nidle_updates = nacquired != cache->nacquired_at_update
				   ? 0
				   : cache->nidle_updates + 1;
	cache->nacquired_at_update = nacquired;
	/*
	 * Flushing objects may release slabs of a source, or resources, which
	 * calls the program.
	 */
	if (cache->calls_out && !may_call && !cache->has_heap_slabs)
		return false;
	if (cache->has_magazines) {
		cache_close_gate(cache);
		magazine_update(&cache->mag, &chain);
		cache_flush(cache, chain);
		cache_open_gate(cache);
	}
	busy = chain != NULL;
	if (may_call || !cache->calls_out)
		busy |= cache->backend->update(cache);
	return busy;
}

bool
cache_purge_idle(struct umem_cache *cache, unsigned age, size_t *limit)
{
	size_t purged;

	if (slab_used(&cache->slabs) == slab_total(&cache->slabs))
		return false;
	if (cache->nidle_updates < age)
		return true;
	purged = page_purge(&cache->slabs, *limit);
	*limit = difference_or_zero(*limit, purged);
	return purged != 0;
}

bool
cache_reclaim_idle(struct umem_cache *cache)
{
	struct magazine *of_depot, *of_cpu = NULL;

	if (!cache->has_magazines || cache->calls_out)
		return false;
	cache_close_gate(cache);
	magazine_idle(&cache->mag, &of_depot);
	if (cache->class != 0 && (cache->bufsize >= LARGE_CLASS_MIN ||
				     magazine_has_budget(&cache->mag)))
		magazine_take_own_idle(&cache->mag, &of_cpu, &cache->nidle_own);
	cache_flush(cache, of_depot);
	cache_flush(cache, of_cpu);
	if (cache->slabs.constructs || cache->slabs.is_type_stable)
		slab_reap_unused(&cache->slabs);
	else if (of_depot != NULL || of_cpu != NULL)
		slab_reap(&cache->slabs, 0);
	cache_open_gate(cache);
	return of_depot != NULL || of_cpu != NULL;
}

size_t
cache_depot_bytes(struct umem_cache *cache)
{
	/*
	 * Returns 0 for these caches.  Constructing an object again may cost
	 * more than its memory is worth.  Memory of a source does not help the
	 * heap, and releasing it may call the program, which callbacks of
	 * cache_walk_beside_worker() must not do.  Memory of a type-stable
	 * cache comes too late for the request.
	 */
	if (!cache->has_magazines || !cache->has_heap_slabs ||
	    cache->slabs.is_type_stable || cache->construct != NULL ||
	    cache->destruct != NULL)
		return 0;
	return magazine_in_depot(&cache->mag);
}

size_t
cache_flush_depot(struct umem_cache *cache)
{
	size_t bytes = cache_depot_bytes(cache);
	struct magazine *chain;

	if (bytes == 0)
		return 0;
	magazine_empty_depot(&cache->mag, &chain);
	cache_flush(cache, chain);
	slab_reap(&cache->slabs, 0);
	return bytes;
}
