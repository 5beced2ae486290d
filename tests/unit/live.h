/* live.h - the objects of a cache that the program holds */
#ifndef TESTS_UNIT_LIVE_H
#define TESTS_UNIT_LIVE_H

#include "tests/unit/rounds.h"
#include "umem/cache/cache.h"
#include "umem/cache/cache_hooks.h"

/*
 * Number of objects that the program holds: samples, and those taken from slabs
 * that are not in a magazine, in the quarantine or in the reserve, and do not
 * wait for a grace period.
 */
static inline size_t
cache_live(struct umem_cache *cache)
{
	size_t used = slab_used(&cache->slabs);
	size_t cached = cache->has_magazines
			    ? magazine_rounds(&cache->mag)
			    : quarantine_count(&cache->quarantine);

	cached += __atomic_load_n(&cache->reserve.nready, __ATOMIC_RELAXED);
	cached += cache_deferral.waiting(cache);
	used += __atomic_load_n(&cache->nsamples, __ATOMIC_RELAXED);
	return used > cached ? used - cached : 0;
}

#endif
