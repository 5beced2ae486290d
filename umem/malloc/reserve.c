/*
 * reserve.c - objects that a cache keeps for requests in need
 *
 * A reserve is an array of constructed objects that are set aside.
 * Slabs and magazines do not have them, so no reap and no update takes them
 * away.  A request with UMEM_RESERVE that finds no memory, and for which a
 * reclaim has found none, takes its objects from there.
 *
 * A reserve that was used is filled before any other request is served.  To
 * this end the fast paths are closed while it lacks objects (cache->fast_at),
 * so that each allocation comes to the slow path, which fills the reserve
 * first.  If it remains short, a request without UMEM_RESERVE finds no memory.
 * Therefore the objects that a program frees in need go to the reserve, and not
 * to requests that may fail.  No free does more than usual: a constructor that
 * the filling needs is called by allocations only.
 *
 * In a debugged cache an object of the reserve is like a free one to the
 * program: a free of it is misuse, and its allocation is recorded when a
 * request takes it.
 *
 * A thread that has read cache->fast_at just before may still get one object by
 * the fast path.  This is harmless: the object was in a magazine.
 *
 * Locking: limit_lock guards the array.  Objects are allocated and freed
 * without it.
 *
 * Source: uma_zone_reserve() and M_USE_RESERVE of FreeBSD.
 */
#include <errno.h>
#include <string.h>

#include "umem/debug/debug.h"
#include "umem/malloc/bulk.h"
#include "vmem/meta.h"

/* Asserts the invariants of a reserve. */
static void
reserve_check_locked(const struct cache_reserve *reserve)
{
	lock_assert_held(&limit_lock);
	umem_assert(reserve->nready <= reserve->capacity);
	umem_assert(reserve->want <= reserve->capacity);
	umem_assert((reserve->objects != NULL) == (reserve->capacity != 0));
}

static void
reserve_set_locked(umem_cache_t *cache, size_t want, size_t nready)
{
	store_relaxed(&cache->reserve.want, want);
	store_relaxed(&cache->reserve.nready, nready);
	reserve_check_locked(&cache->reserve);
	cache_choose_fast(cache);
}

/* Calls f for each of n objects of a debugged cache. */
static void
tell_debugger(umem_cache_t *cache, void *const *objects, size_t n,
    void (*f)(struct umem_cache *cache, void *object))
{
	for (size_t i = 0; cache->debug != 0 && i < n; i++)
		f(cache, objects[i]);
}

/* Objects of bulk_get() for the reserve, as many as it lacks; how many. */
static size_t
reserve_put(umem_cache_t *cache, void *const *objects, size_t n)
{
	struct cache_reserve *reserve = &cache->reserve;
	size_t nmissing;

	tell_debugger(cache, objects, n, debug_reserve);
	lock_take(&limit_lock);
	nmissing =
	    reserve_is_short(cache) ? reserve->want - reserve->nready : 0;
	n = size_min(n, nmissing);
	if (n != 0) {
		memcpy(reserve->objects + reserve->nready, objects,
		    n * sizeof(void *));
		reserve_set_locked(cache, reserve->want, reserve->nready + n);
	}
	lock_release(&limit_lock);
	return n;
}

/* Objects that are set aside go back to the cache. */
static void
reserve_drop(umem_cache_t *cache, void *const *objects, size_t n)
{
	if (n == 0)
		return;
	tell_debugger(cache, objects, n, debug_unreserve);
	cache_put_bulk(cache, objects, n, "umem_cache_set_reserve");
}

bool
reserve_fill(umem_cache_t *cache, bool reclaims)
{
	while (reserve_is_short(cache)) {
		void *object;
		size_t n = reclaims ? bulk_get(cache, 1, &object, UMEM_RESERVE)
				    : cache_get_bulk(cache, &object, 1);

		if (n == 0)
			return false;
		if (reserve_put(cache, &object, 1) == 0)
			reserve_drop(cache, &object, 1);
	}
	return true;
}

/* Takes the last n objects of the array, still set aside; 0: it has fewer. */
static size_t
reserve_take_out(umem_cache_t *cache, size_t n, void **objects)
{
	struct cache_reserve *reserve = &cache->reserve;

	lock_take(&limit_lock);
	if (n > reserve->nready)
		n = 0;
	if (n != 0) {
		memcpy(objects, reserve->objects + reserve->nready - n,
		    n * sizeof(void *));
		reserve_set_locked(cache, reserve->want, reserve->nready - n);
	}
	lock_release(&limit_lock);
	return n;
}

size_t
reserve_take(umem_cache_t *cache, size_t n, void **objects)
{
	if (load_relaxed(&cache->reserve.nready) == 0)
		return 0;
	n = reserve_take_out(cache, n, objects);
	tell_debugger(cache, objects, n, debug_hand_out);
	add_relaxed(&cache->reserve.nused, n);
	return n;
}

/* An array for n objects at least; false: no memory. */
static bool
reserve_grow(struct cache_reserve *reserve, size_t n)
{
	void **array, **old;
	size_t old_room;

	if (n <= reserve->capacity)
		return true;
	array = n > PTRDIFF_MAX / sizeof(void *)
		    ? NULL
		    : meta_alloc(n * sizeof(void *));
	if (array == NULL)
		return false;
	lock_take(&limit_lock);
	old = reserve->objects;
	old_room = reserve->capacity;
	if (reserve->nready != 0)
		memcpy(array, old, reserve->nready * sizeof(void *));
	reserve->objects = array;
	reserve->capacity = n;
	lock_release(&limit_lock);
	if (old_room != 0)
		meta_free(old, old_room * sizeof(void *));
	return true;
}

/* Objects beyond those that it should keep go back. */
static void
reserve_trim(umem_cache_t *cache)
{
	struct cache_reserve *reserve = &cache->reserve;
	void *object;

	while (load_relaxed(&reserve->nready) > load_relaxed(&reserve->want) &&
	       reserve_take_out(cache, 1, &object) == 1)
		reserve_drop(cache, &object, 1);
}

static void
reserve_set_want(umem_cache_t *cache, size_t n)
{
	lock_take(&limit_lock);
	reserve_set_locked(cache, n, cache->reserve.nready);
	lock_release(&limit_lock);
}

public int
umem_cache_set_reserve(umem_cache_t *cache, size_t n)
{
	size_t before = cache->reserve.want;
	int saved = errno;

	if (!reserve_grow(&cache->reserve, n))
		return fail_int(ENOMEM);
	reserve_set_want(cache, n);
	/* A smaller reserve asks for less than before, so it may stay short. */
	if (!reserve_fill(cache, /* reclaims */ true) && n >= before) {
		reserve_set_want(cache, before);
		reserve_trim(cache);
		return fail_int(ENOMEM);
	}
	reserve_trim(cache);
	errno = saved;
	return 0;
}

void
reserve_end(umem_cache_t *cache)
{
	struct cache_reserve *reserve = &cache->reserve;

	if (reserve->capacity == 0)
		return;
	reserve_set_want(cache, 0);
	reserve_trim(cache);
	meta_free(reserve->objects, reserve->capacity * sizeof(void *));
	reserve->objects = NULL;
	reserve->capacity = 0;
}
