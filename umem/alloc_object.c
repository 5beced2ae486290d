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

/* Also in other regions, for they lie somewhere in the address space. */
static inline uintptr_t
header_at(const umem_cache_t *cache)
{
	return (uintptr_t)cache->mag.hot - (uintptr_t)alloc_fast.hot;
}

void *
alloc_no_object(const umem_cache_t *cache, size_t bytes)
{
	int error = errno;

	alloc_no_memory(bytes);
	if (cache->import != NULL)
		errno = error;
	return NULL;
}

/* Out of line, so that the fast path saves no register. */
static noinline void *
cache_alloc_again(umem_cache_t *cache, int flags)
{
	void *object;

	if (mtbf_strikes(flags, cache, cache->bufsize))
		return NULL;
	for (;;) {
		/* What a source has may be free in another of its caches. */
		size_t bytes = cache->slabs.source != NULL
				   ? 0
				   : cache->slabs.layout.slab_bytes;
		uint64_t nrefused = cache_refused(cache);

		cpu_bring_in(cache->mag.hot);
		object = cache_alloc_slow(cache);
		for (unsigned i = 0; object == NULL; i++) {
			/* A constructor that refuses is no want of memory. */
			if (cache_refused(cache) != nrefused ||
			    !update_reclaim(bytes, i, /* may_call */ true))
				break;
			object = cache_alloc_slow(cache);
		}
		if (object != NULL)
			break;
		if (!nofail_again(flags))
			return alloc_no_object(cache, bytes);
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
	    likely(rseq_pop(&alloc_fast.place, alloc_fast.hot, header_at(cache),
		       &object) == RSEQ_OK))
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
	cache_free_slow(cache, object, "umem_cache_free");
}

public void
umem_cache_free(umem_cache_t *cache, void *object)
{
	/* Also tells whether there are sections, at the price of a test of it. */
	if (likely((uintptr_t)object >= alloc_fast.object_least) &&
	    likely(rseq_push(&alloc_fast.place, alloc_fast.hot,
		       header_at(cache), object) == RSEQ_OK))
		return;
	cache_free_again(cache, object);
}
