/* alloc_object.c - objects of caches */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/cache/cache.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample_object.h"
#include "umem/upkeep/update.h"

/* Makes one attempt, after it has refilled the reserve if that is short. */
static void *
object_try_alloc(umem_cache_t *cache, int flags)
{
	unsigned work = 0;
	void *object;

	if (unlikely(reserve_is_short(cache)) && (flags & UMEM_RESERVE) == 0 &&
	    !reserve_fill(cache, /* reclaims */ false))
		return NULL;
	object = cache_alloc_slow(cache, &work);
	if (work != 0)
		update_run(work);
	return object;
}

/*
 * Repeats the attempt while reclaim frees memory.  If that fails and flags
 * allow it, takes an object from the reserve.
 */
static void *
object_alloc_reclaiming(umem_cache_t *cache, size_t bytes, int flags)
{
	uint64_t nrefused = load_relaxed(&cache->nrefused);
	void *object;

	object = object_try_alloc(cache, flags);
	for (unsigned i = 0; object == NULL; i++) {
		/*
		 * If a constructor has refused, the failure is not lack of
		 * memory.
		 */
		if (load_relaxed(&cache->nrefused) != nrefused ||
		    !update_reclaim(bytes, i, /* may_call */ true))
			break;
		object = object_try_alloc(cache, flags);
	}
	if (object == NULL && (flags & UMEM_RESERVE) != 0)
		reserve_take(cache, 1, &object);
	return object;
}

void *
alloc_failed_by(int error, umem_cache_t *cache)
{
	int imported = errno;

	if (error == ENOMEM) {
		if (unlikely(debug.on || debug.checknull))
			debug_alloc_failed(cache, cache->bufsize);
		if (cache->import != NULL)
			error = imported;
	}
	errno = error;
	return NULL;
}

/* Are the fast paths closed only because objects are counted as samples? */
static inline bool
is_closed_for_samples(const umem_cache_t *cache)
{
	return cache_is_sampled(cache) && likely(!cache->limit.counts) &&
	       likely(!reserve_is_short(cache)) &&
	       likely(alloc_fast.units != 0);
}

/* Out of line, so that the fast path saves no register. */
static noinline void *
object_alloc_missed(umem_cache_t *cache, int flags)
{
	/*
	 * For a cache with a source, pass 0, so that reclaim tries in any case:
	 * other caches of that source may hold free memory of it.
	 */
	size_t bytes =
	    cache->slabs.source != NULL ? 0 : cache->slabs.layout.slab_bytes;
	int saved = errno;
	void *object;

	if (mtbf_must_fail(flags, cache, cache->bufsize))
		return NULL;
	for (;;) {
		int error = cache_count(cache, 1, flags);

		if (likely(error == 0)) {
			object = object_alloc_reclaiming(cache, bytes, flags);
			if (likely(object != NULL))
				break;
			cache_count_off(cache, 1);
			alloc_count_failure(cache, cache->bufsize);
			error = ENOMEM;
		}
		if (!nofail_retry(flags))
			return alloc_failed_by(error, cache);
	}
	errno = saved;
	if (unlikely(cache->slabs.is_annotated))
		cache_tell_alloc(cache, object);
	return sample_object_instead(cache, object);
}

/* Tries the section if the fast path has skipped it only because of samples. */
static noinline void *
object_alloc_slow(umem_cache_t *cache, int flags)
{
	void *object;

	if (is_closed_for_samples(cache) &&
	    likely(rseq_pop(&alloc_fast.place, cache_header_at(cache),
		       &object) == RSEQ_OK))
		return sample_object_instead(cache, object);
	return object_alloc_missed(cache, flags);
}

void *
object_alloc_once(umem_cache_t *cache)
{
	void *object;

	if (likely(alloc_fast.units != 0) &&
	    likely(rseq_pop(&alloc_fast.place, cache_fast_at(cache), &object) ==
		   RSEQ_OK))
		return object;
	return object_try_alloc(cache, UMEM_DEFAULT);
}

public void *
umem_cache_alloc(umem_cache_t *cache, int flags)
{
	void *object;

	if (likely(alloc_fast.units != 0) &&
	    likely(rseq_pop(&alloc_fast.place, cache_fast_at(cache), &object) ==
		   RSEQ_OK))
		return object;
	return object_alloc_slow(cache, flags);
}

/*
 * Out of line, so that the caller, which runs the section, keeps no register
 * for this path.
 */
static noinline void
object_free_slow(umem_cache_t *cache, void *object)
{
	unsigned work = 0;

	cache_check_poison(cache, "umem_cache_free");
	if (object == NULL ||
	    sample_object_free(cache, object, "umem_cache_free"))
		return;
	if (is_closed_for_samples(cache) &&
	    likely(rseq_push(&alloc_fast.place, cache_header_at(cache),
		       object) == RSEQ_OK))
		return;
	if (unlikely(cache->slabs.is_annotated))
		cache_tell_free(cache, object);
	cpu_prefetch(cache->mag.hot);
	if (cache_free_slow(cache, object, "umem_cache_free", &work))
		cache_count_off(cache, 1);
	if (work != 0)
		update_run(work);
}

public void
umem_cache_free(umem_cache_t *cache, void *object)
{
	/*
	 * The compare with object_least also tests whether sections run; the
	 * cost is that of a NULL test.
	 */
	if (likely((uintptr_t)object >= alloc_fast.object_least) &&
	    likely(rseq_push(&alloc_fast.place, cache_fast_at(cache), object) ==
		   RSEQ_OK))
		return;
	object_free_slow(cache, object);
}
