/* alloc_object.c - objects of caches */
#include <errno.h>

#include "umem/alloc_inner.h"
#include "umem/cache.h"
#include "umem/nofail.h"
#include "umem/update.h"

static uint64_t
cache_refused(const struct umem_cache *cache)
{
	return __atomic_load_n(&cache->nrefused, __ATOMIC_RELAXED);
}

/* One attempt; a reserve that lacks objects comes first. */
static void *
try_alloc(umem_cache_t *cache, int flags)
{
	if (unlikely(reserve_is_short(cache)) && (flags & UMEM_RESERVE) == 0 &&
	    !reserve_fill(cache))
		return NULL;
	return cache_alloc_slow(cache);
}

/* The same with reclaims of memory, and the reserve at the end. */
static void *
alloc_reclaiming(umem_cache_t *cache, size_t bytes, int flags)
{
	uint64_t nrefused = cache_refused(cache);
	void *object;

	cpu_bring_in(cache->mag.hot);
	object = try_alloc(cache, flags);
	for (unsigned i = 0; object == NULL; i++) {
		/* A constructor that refuses is no want of memory. */
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
	/* What a source has may be free in another of its caches. */
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

/* A call of its own, so that the section's caller keeps nothing for it. */
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
	/* Also tells whether there are sections, at the price of a test of it. */
	if (likely((uintptr_t)object >= alloc_fast.object_least) &&
	    likely(rseq_push(&alloc_fast.place, alloc_fast.hot,
		       cache_fast_at(cache), object) == RSEQ_OK))
		return;
	cache_free_again(cache, object);
}
