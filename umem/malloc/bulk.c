/*
 * bulk.c - many objects or blocks by one call
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
 * Blocks of umem_alloc_bulk() are blocks of umem_alloc(), so either may be
 * freed by the other's function.  Where single calls do more than move an
 * object (debugging, sampling, a memory checker), a bulk call makes single
 * calls.
 */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/malloc/bulk.h"
#include "umem/cache/cache.h"
#include "umem/base/checker.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample_object.h"
#include "umem/upkeep/update.h"

/*
 * Gets up to n objects; returns how many there were.  One section takes all
 * from this CPU's loaded magazine, or none.
 */
static size_t
bulk_get_cached(umem_cache_t *cache, size_t n, void **objects)
{
	size_t got = 0;

	if (n <= RSEQ_MANY && alloc_fast.units != 0 &&
	    rseq_pop_many(
		&alloc_fast.place, cache_fast_at(cache), objects, n) == RSEQ_OK)
		return n;
	while (got < n) {
		size_t nfetched = cache_get_bulk(cache, objects + got, n - got);

		if (nfetched == 0)
			break;
		got += nfetched;
	}
	return got;
}

/*
 * Returns how many objects were freed.  One section frees all to this CPU's
 * loaded magazine, or none.
 */
static size_t
bulk_put_distinct(
    umem_cache_t *cache, size_t n, void *const *objects, const char *api)
{
	umem_assert(n != 0);
	if (n <= RSEQ_MANY && alloc_fast.units != 0 &&
	    rseq_push_many(
		&alloc_fast.place, cache_fast_at(cache), objects, n) == RSEQ_OK)
		return n;
	return cache_put_bulk(cache, objects, n, api);
}

/* Frees the samples among n objects, and each of the others by a call. */
static void
bulk_put_sampled(
    umem_cache_t *cache, size_t n, void *const *objects, const char *api)
{
	size_t nfreed = 0;

	cache_check_poison(cache, api);
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
	    !reserve_fill(cache, /* reclaims */ false))
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
	size_t got = bulk_try_get(cache, n, objects, flags);

	for (unsigned i = 0; got < n; i++) {
		/* A constructor that refuses is no want of memory. */
		if (load_relaxed(&cache->nrefused) != nrefused ||
		    !update_reclaim(bytes, i, /* may_call */ cache->class == 0))
			break;
		got += bulk_try_get(cache, n - got, objects + got, flags);
	}
	return got;
}

/*
 * Gets n objects, which count, or none: one attempt without UMEM_NOFAIL and
 * umem_setmtbf().  Returns 0 or the error.
 */
static int
bulk_get_all(umem_cache_t *cache, size_t n, void **objects, int flags)
{
	int error = cache_count(cache, n, flags);
	int saved = (flags & UMEM_RESERVE) != 0 ? errno : 0;
	size_t got;

	if (error != 0)
		return error;
	got = bulk_get(cache, n, objects, flags);
	umem_assert(got <= n);
	if (unlikely(got < n) && (flags & UMEM_RESERVE) != 0) {
		got += reserve_take(cache, n - got, objects + got);
		if (got == n)
			errno = saved;
	}
	if (likely(got == n)) {
		/* Counts each object, which a sample may replace. */
		if (unlikely(sample_is_on()))
			for (size_t i = 0; i < n; i++)
				objects[i] =
				    sample_object_instead(cache, objects[i]);
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

/* The cache to move blocks of this size by; NULL: single calls it is. */
static umem_cache_t *
bulk_cache_for_size(size_t size)
{
	unsigned class;

	/* As for the section: not before the start, nor while requests fail. */
	if (alloc_fast.units == 0 || sample_is_on() || debug.on || checker_on)
		return NULL;
	class = size == 0 ? 0 : size_class_of(size);
	return class == 0 ? NULL : class_cache_of(class_number(class));
}

/* One by one; returns how many there were. */
static size_t
bulk_alloc_each_once(size_t size, size_t n, void **blocks)
{
	size_t got = 0;

	while (
	    got < n && (blocks[got] = alloc_sized_once(size, 0, false)) != NULL)
		got++;
	return got;
}

static size_t
bulk_alloc_each(size_t size, size_t n, void **blocks, int flags)
{
	int saved = errno;
	size_t got;

	if (mtbf_must_fail(flags, NULL, size))
		return 0;
	while ((got = bulk_alloc_each_once(size, n, blocks)) < n) {
		umem_free_bulk(got, blocks, size);
		if (!nofail_retry(flags))
			return 0;
	}
	errno = saved;
	return n;
}

public size_t
umem_alloc_bulk(size_t size, size_t n, void **blocks, int flags)
{
	umem_cache_t *cache = bulk_cache_for_size(size);

	if (cache != NULL)
		return umem_cache_alloc_bulk(cache, n, blocks, flags);
	if (size != 0)
		return bulk_alloc_each(size, n, blocks, flags);
	/* As umem_alloc(): no memory, and no failure. */
	for (size_t i = 0; i < n; i++)
		blocks[i] = umem_alloc(0, flags);
	return n;
}

/*
 * Blocks from the first on that are starts of chunks of the cache with this
 * number, of which none equals one of the two before it.
 */
static size_t
bulk_count_of(void *const *blocks, size_t n, unsigned number)
{
	struct cpu_guard guard = page_map.divisor[number % NODE_CLASSES];
	uintptr_t base = alloc_fast.base;
	uintptr_t header_offset = number * sizeof(struct cpu_hot);
	size_t units = alloc_fast.units;
	const uint64_t *entries = alloc_fast.entry;
	const void *last = NULL, *before_last = NULL;
	size_t i;

	umem_assert(number != 0);
	for (i = 0; i < n; i++) {
		const void *p = blocks[i];
		size_t unit = ((uintptr_t)p - base) >> HEAP_UNIT_SHIFT;
		uint64_t entry;

		if (unit >= units || p == last || p == before_last)
			break;
		entry = load_relaxed(&entries[unit]);
		if (page_map_header_offset(entry) != header_offset ||
		    page_map_chunk_offset(p, entry) * guard.magic >=
			guard.bound)
			break;
		before_last = last;
		last = p;
	}
	return i;
}

public void
umem_free_bulk(size_t n, void *const *blocks, size_t size)
{
	umem_cache_t *cache = bulk_cache_for_size(size);

	while (n > 0) {
		size_t ngood =
		    cache == NULL ? 0 : bulk_count_of(blocks, n, cache->class);

		/* A sample, NULL or misuse: the single call's matter. */
		if (ngood != 0) {
			bulk_put_distinct(
			    cache, ngood, blocks, "umem_free_bulk");
		} else {
			umem_free(blocks[0], size);
			ngood = 1;
		}
		blocks += ngood;
		n -= ngood;
	}
}
