/*
 * cache_check.h - checks of the invariants of caches, in debug builds only
 *
 * The functions exist in debug builds only, so a call is the argument of
 * umem_assert().  A check that takes time for each of n elements does nothing
 * in most calls if n is large, so that a change costs constant time on average.
 */
#ifndef UMEM_CACHE_CHECK_H
#define UMEM_CACHE_CHECK_H

#include "umem/cache/cache.h"
#include "umem/cache/pointer_set.h"

/*
 * Checks one cache: its members, the queue of its limit, and the pool of an
 * import cache; reserve.c checks the reserve.  The caller holds no lock and has
 * the cache pinned.
 */
bool cache_check(struct umem_cache *cache);

/* Checks the list of caches, the sums over it and the positions of walks. */
bool cache_list_check_locked(void);

/* Checks the queue of requests that wait; limit_lock is held. */
bool limit_check_locked(const struct limit *limit);

/*
 * Checks the pool of an import cache, and the set of resources that the program
 * holds; the lock of cache->slabs is held.
 */
bool import_check_locked(const struct umem_cache *cache);

/* Checks a set that contains at most most values. */
bool pointer_set_check(const struct pointer_set *set, size_t most);

/*
 * Is a check of n elements due, of which *ncalls counts the calls?  Always, if
 * there are few.
 */
static inline bool
check_is_due(size_t *ncalls, size_t n)
{
	return n <= 64 || add_relaxed(ncalls, 1) % n == 0;
}

#endif
