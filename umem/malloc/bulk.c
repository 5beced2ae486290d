/*
 * bulk.c - many objects by one call
 *
 * A single call costs a restartable section.  A bulk call owns the CPU's
 * header once (magazine/cpu.c) and copies whole magazines: those of the CPU,
 * then full ones that the depot exchanges for empty ones by pointer.  The slabs
 * supply the rest in one visit.  A group of at most RSEQ_MANY objects that the
 * loaded magazine can serve takes one restartable section instead.
 *
 * An allocation is all or nothing.  A call that falls short frees its objects
 * before it returns, and before the nofail callback of the program runs,
 * because the callback may need that memory and may leave by longjmp().
 *
 * Where single calls do more than move an object (debugging, sampling, a memory
 * checker), a bulk call makes single calls.
 */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/malloc/bulk.h"
#include "umem/cache/cache.h"
#include "umem/base/checker.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample_object.h"
#include "umem/upkeep/update.h"

/* Gets n objects of this CPU's loaded magazine by one section, or none. */
static size_t
bulk_section_pop(umem_cache_t *cache, size_t n, void **objects)
{
	if (n > RSEQ_MANY || alloc_fast.units == 0 ||
	    rseq_pop_many(
		&alloc_fast.place, cache_fast_at(cache), objects, n) != RSEQ_OK)
		return 0;
	return n;
}

/* Gets up to n objects; returns how many there were. */
static size_t
bulk_get_cached(umem_cache_t *cache, size_t n, void **objects)
{
	size_t got = bulk_section_pop(cache, n, objects);

	while (got < n) {
		size_t nfetched = cache_get_bulk(cache, objects + got, n - got);

		if (nfetched == 0)
			break;
		got += nfetched;
	}
	return got;
}

/* Frees n objects to this CPU's loaded magazine by one section, or none. */
static size_t
bulk_section_push(umem_cache_t *cache, size_t n, void *const *objects)
{
	if (n > RSEQ_MANY || alloc_fast.units == 0 ||
	    rseq_push_many(
		&alloc_fast.place, cache_fast_at(cache), objects, n) != RSEQ_OK)
		return 0;
	return n;
}

/* Returns how many objects were freed. */
static size_t
bulk_put_distinct(
    umem_cache_t *cache, size_t n, void *const *objects, const char *api)
{
	size_t nput = bulk_section_push(cache, n, objects);

	umem_assert(n != 0);
	if (nput < n)
		nput += cache_put_bulk(cache, objects + nput, n - nput, api);
	return nput;
}

/* Frees the samples among n objects, and each of the others by a call. */
static void
bulk_put_sampled(
    umem_cache_t *cache, size_t n, void *const *objects, const char *api)
{
	size_t nfreed = 0;

	for (size_t i = 0; i < n; i++)
		if (!sample_object_free(cache, objects[i], api))
			nfreed += cache_put_bulk(cache, objects + i, 1, api);
	cache_count_off(cache, nfreed);
}

/* Frees n objects that count.  Messages name the API function api. */
static void
bulk_put(umem_cache_t *cache, size_t n, void *const *objects, const char *api)
{
	size_t nfreed;

	if (unlikely(cache_is_sampled(cache))) {
		bulk_put_sampled(cache, n, objects, api);
		return;
	}
	/* A section pushes one object at least: rseq.h. */
	if (n == 0)
		return;
	if (n <= RSEQ_MANY &&
	    likely(magazine_distinct(objects, (unsigned)n) == n))
		nfreed = bulk_put_distinct(cache, n, objects, api);
	else
		nfreed = cache_put_bulk(cache, objects, n, api);
	cache_count_off(cache, nfreed);
}

/* One attempt; a reserve that lacks objects comes first. */
static size_t
bulk_try_get(umem_cache_t *cache, size_t n, void **objects, int flags)
{
	if (unlikely(reserve_is_short(cache)) && (flags & UMEM_RESERVE) == 0 &&
	    !reserve_fill(cache))
		return 0;
	return bulk_get_cached(cache, n, objects);
}

size_t
bulk_get(umem_cache_t *cache, size_t n, void **objects, int flags)
{
	/* Memory of a source is not of the heap: its size is no help. */
	size_t bytes =
	    cache->slabs.source != NULL ? 0 : cache->slabs.layout.slab_bytes;
	uint64_t nrefused = load_relaxed(&cache->nrefused);
	size_t got = 0;

	for (unsigned i = 0;; i++) {
		got += bulk_try_get(cache, n - got, objects + got, flags);
		/* A constructor that refuses is no want of memory. */
		if (likely(got == n) ||
		    load_relaxed(&cache->nrefused) != nrefused ||
		    !update_reclaim(bytes, i, /* may_call */ true))
			return got;
	}
}

/* Counts n objects for samples; some may be replaced by samples. */
static void
bulk_sample(umem_cache_t *cache, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++)
		objects[i] = sample_object_instead(cache, objects[i]);
}

/*
 * Gets n objects, which count, or none: one attempt without UMEM_NOFAIL and
 * umem_setmtbf().  Returns 0 or the error.
 */
static int
bulk_get_all(umem_cache_t *cache, size_t n, void **objects, int flags)
{
	int error = cache_count(cache, n, flags);
	size_t got;

	if (error != 0)
		return error;
	got = bulk_get(cache, n, objects, flags);
	umem_assert(got <= n);
	if (unlikely(got < n) && (flags & UMEM_RESERVE) != 0)
		got += reserve_take(cache, n - got, objects + got);
	if (likely(got == n)) {
		if (unlikely(sample_is_on()))
			bulk_sample(cache, n, objects);
		return 0;
	}
	bulk_put(cache, got, objects, "umem_cache_alloc_bulk");
	cache_count_off(cache, n - got);
	alloc_count_failure(cache, cache->bufsize);
	return ENOMEM;
}

public size_t
umem_cache_alloc_bulk(umem_cache_t *cache, size_t n, void **objects, int flags)
{
	int error;

	if (n == 0 || mtbf_must_fail(flags, cache, cache->bufsize))
		return 0;
	while ((error = bulk_get_all(cache, n, objects, flags)) != 0)
		if (!nofail_retry(flags)) {
			alloc_failed_by(error, cache);
			return 0;
		}
	if (unlikely(cache->slabs.is_annotated))
		for (size_t i = 0; i < n; i++)
			cache_tell_alloc(cache, objects[i]);
	return n;
}

public void
umem_cache_free_bulk(umem_cache_t *cache, size_t n, void *const *objects)
{
	if (unlikely(cache->slabs.is_annotated))
		for (size_t i = 0; i < n; i++)
			if (objects[i] != NULL)
				cache_tell_free(cache, objects[i]);
	bulk_put(cache, n, objects, "umem_cache_free_bulk");
}
