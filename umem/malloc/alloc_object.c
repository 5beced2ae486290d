/* alloc_object.c - objects of caches */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/cache/cache.h"
#include "umem/malloc/nofail.h"
#include "umem/upkeep/update.h"

static uint64_t
cache_refused(const struct umem_cache *cache)
{
	return __atomic_load_n(&cache->nrefused, __ATOMIC_RELAXED);
}

/* Makes one attempt, after it has refilled the reserve if that is short. */
static void *
try_alloc(umem_cache_t *cache, int flags)
{
	if (unlikely(reserve_is_short(cache)) && (flags & UMEM_RESERVE) == 0 &&
	    !reserve_fill(cache))
		return NULL;
	return cache_alloc_slow(cache);
}

/*
 * Repeats the attempt while reclaim frees memory.  If that fails and flags
 * allow it, takes an object from the reserve.
 */
static void *
alloc_reclaiming(umem_cache_t *cache, size_t bytes, int flags)
{
	uint64_t nrefused = cache_refused(cache);
	void *object;

	cpu_bring_in(cache->mag.hot);
	object = try_alloc(cache, flags);
	for (unsigned i = 0; object == NULL; i++) {
		/*
		 * If a constructor has refused, the failure is not lack of
		 * memory.
		 */
		if (cache_refused(cache) != nrefused ||
		    !update_reclaim(bytes, i, /* may_call */ true))
			break;
		object = try_alloc(cache, flags);
	}
	if (object == NULL && (flags & UMEM_RESERVE) != 0)
		reserve_take(cache, 1, &object);
	return object;
}

void *
alloc_failed_by(int error, const umem_cache_t *cache, size_t bytes)
{
	int imported = errno;

	if (error == ENOMEM) {
		alloc_no_memory(bytes);
		if (cache->import != NULL)
			error = imported;
	}
	errno = error;
	return NULL;
}

/* Out of line, so that the fast path saves no register. */
static noinline void *
cache_alloc_again(umem_cache_t *cache, int flags)
{
	/*
	 * For a cache with a source, pass 0, so that reclaim tries in any case:
	 * other caches of that source may hold free memory of it.
	 */
	size_t bytes =
	    cache->slabs.source != NULL ? 0 : cache->slabs.layout.slab_bytes;
	void *object;

	if (mtbf_strikes(flags, cache, cache->bufsize))
		return NULL;
	for (;;) {
		int error = cache_count(cache, 1, flags);

		if (likely(error == 0)) {
			object = alloc_reclaiming(cache, bytes, flags);
			if (likely(object != NULL))
				break;
			cache_count_off(cache, 1);
			error = ENOMEM;
		}
		if (!nofail_again(flags))
			return alloc_failed_by(error, cache, bytes);
	}
	if (unlikely(cache->slabs.watched))
		cache_tell_alloc(cache, object);
	return object;
}

public void *
umem_cache_alloc(umem_cache_t *cache, int flags)
{
	void *object;

	if (likely(alloc_fast.units != 0) &&
	    likely(rseq_pop(&alloc_fast.place, alloc_fast.hot,
		       cache_fast_at(cache), &object) == RSEQ_OK))
		return object;
	return cache_alloc_again(cache, flags);
}

/*
 * Out of line, so that the caller, which runs the section, keeps no register
 * for this path.
 */
static noinline void
cache_free_again(umem_cache_t *cache, void *object)
{
	if (object == NULL)
		return;
	if (unlikely(cache->slabs.watched))
		cache_tell_free(cache, object);
	cpu_bring_in(cache->mag.hot);
	if (cache_free_slow(cache, object, "umem_cache_free"))
		cache_count_off(cache, 1);
}

public void
umem_cache_free(umem_cache_t *cache, void *object)
{
	/*
	 * The compare with object_least also tests whether sections run; the
	 * cost is that of a NULL test.
	 */
	if (likely((uintptr_t)object >= alloc_fast.object_least) &&
	    likely(rseq_push(&alloc_fast.place, alloc_fast.hot,
		       cache_fast_at(cache), object) == RSEQ_OK))
		return;
	cache_free_again(cache, object);
}
