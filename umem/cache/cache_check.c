/*
 * cache_check.c - checks the invariants of one cache; debug builds call it
 *
 * Each part of a cache has its own check beside its code, called after each
 * change: cache_list_check_locked() (cache_walk.c), limit_check_locked(),
 * import_check_locked(), pointer_set_check(), and slab_store_check() of the
 * slabs.  cache_check() puts them together for one cache.  The worker calls it
 * before its work.
 */
#include "umem/cache/cache_check.h"

#ifdef UMEM_DEBUG
static bool
magazines_are_right(const struct umem_cache *cache)
{
	uintptr_t fast = cache_fast_at(cache);

	if (fast != 0 && fast != cache_header_at(cache))
		return false;
	if (!cache->has_magazines)
		return cache->mag.hot == cpu_header_none();
	return (cache->debug == 0 || fast == 0) &&
	       cache->mag.hot != cpu_header_none();
}

static bool
import_is_right(struct umem_cache *cache)
{
	bool is_right;

	if (cache->import == NULL)
		return true;
	lock_take(&cache->slabs.lock);
	is_right = import_check_locked(cache);
	lock_release(&cache->slabs.lock);
	return is_right && cache->calls_out && cache->slabs.source == NULL;
}

static bool
limit_is_right(const struct umem_cache *cache)
{
	bool is_right;

	lock_take(&limit_lock);
	is_right = limit_check_locked(&cache->limit);
	lock_release(&limit_lock);
	return is_right;
}

bool
cache_check(struct umem_cache *cache)
{
	return is_pow2(cache->align) &&
	       cache->slabs.layout.chunk >= cache->bufsize &&
	       (cache->class == 0 ||
		   class_cache_if_made(cache->class) == cache) &&
	       magazines_are_right(cache) && limit_is_right(cache) &&
	       import_is_right(cache);
}
#endif
