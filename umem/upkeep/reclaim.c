/*
 * reclaim.c - the memory policy: how much may be idle, and for how long
 *
 * Idle bytes are memory that the program does not use and that the kernel does
 * not have.  They are in five levels, from the cheapest to rebuild:
 *
 *	level		age			rebuilt by
 *	dirty pages	epoch of each unit	a page fault
 *	slab pages	updates since the	a page fault, for one cache
 *			slabs' lock was taken
 *	empty slabs	one update		the heap, a descriptor
 *	depots		working-set minimum	a visit to the slabs
 *			since the last step
 *	CPU caches	no exchange since the	visits to the depot
 *			last update
 *
 * Target and pressure
 *	A part of the heap may be idle: the target (target.h).  Idle bytes
 *	within the target are released at RECLAIM_AGE_NS.  Pressure is the
 *	number of targets beyond the first that are idle, at most
 *	RECLAIM_PRESSURE_MAX; it shortens the age.
 *
 * Release
 *	update	every 250 ms, the upkeep thread or a slow path: all levels, at
 *		the age above (update.c)
 *	step	below: the program has allocated memory from the heap, so it
 *		prefers memory now to cached memory later.  Time does not matter
 *		to a program that allocates quickly; its bytes age by the bytes
 *		allocated since
 *	idle	a program with one thread makes no slow path (update.c): age 0
 *	request	no memory, umem_reap(), malloc_trim(): age 0
 *
 * Step
 *	A step is due after every target/STEP_PART bytes allocated from the
 *	heap, at most STEP_MAX.  If all depots together exceed the target, they
 *	are flushed to the slabs, up to RELEASE_LIMIT.  Because the heap is
 *	being asked, the program wants memory for some sizes that depots hold
 *	for others.  Otherwise a program that uses several sizes in turn would
 *	end with as much in each depot as it ever had of that size: each depot
 *	is used in every turn, so none has a surplus.  A program that uses its
 *	sizes evenly asks the heap for nothing, so its depots keep everything.
 *	Caches with a constructor keep their constructed objects.
 *	    If the heap grew, depots release the surplus since the last step in
 *	any case: a page that is mapped already is cheaper than a new one, and a
 *	program that grows may be at its peak.  The free pages of slabs beyond
 *	the target are purged, up to RELEASE_LIMIT.
 *
 *	Any thread may flush the depots, concurrently with others.  If only one
 *	were allowed and the kernel preempted it, the others could allocate ten
 *	times their working set within some milliseconds.
 *
 * Locking: the counters are atomic.  The thread that detects growth reclaims as
 * the worker (worker.c).  If another thread is the worker, the next check does
 * it.
 */
#include <errno.h>
#include <sys/types.h>

#include "umem/cache/cache.h"
#include "umem/cache/cache_walk.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/soft_limit.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/panic.h"
#include "magazine/target.h"

/* Bytes between two steps: this part of the target, at most STEP_MAX. */
#define STEP_PART 4
#define STEP_MAX  (4 * MIB)

size_t reclaim_at;

static size_t clean_seen; /* [a] heap_allocated_clean() at the last growth */
static size_t purge_left; /* [worker] bytes still to purge */

unsigned
reclaim_pressure(size_t idle, size_t bytes)
{
	size_t ntargets = idle / idle_target(bytes);

	if (ntargets > RECLAIM_PRESSURE_MAX)
		return RECLAIM_PRESSURE_MAX;
	return ntargets == 0 ? 0 : (unsigned)ntargets - 1;
}

/* Approximate bytes of free chunks that have memory. */
static size_t
reclaimable_hole_bytes(struct umem_cache *cache)
{
	size_t total = slab_total(&cache->slabs);
	size_t used = slab_used(&cache->slabs);

	return cache->slabs.source == NULL && used < total
		   ? (total - used) * cache->slabs.layout.chunk
		   : 0;
}

/* Approximate bytes of free chunks with pages that are not purged. */
static size_t
hole_bytes(void)
{
	return difference_or_zero(
	    cache_walk_sum(TALLY_HOLES, reclaimable_hole_bytes),
	    page_purge_bytes());
}

size_t
reclaim_idle_bytes(void)
{
	return heap_dirty() + hole_bytes() +
	       cache_walk_sum(TALLY_DEPOTS, cache_depot_bytes);
}

unsigned
reclaim_dirty_pressure(void)
{
	size_t dirty = heap_dirty();

	/* heap_used() takes a lock, so it is asked only if needed. */
	if (dirty < IDLE_MIN)
		return 0;
	return reclaim_pressure(dirty, dirty + heap_used());
}

unsigned
reclaim_page_pressure(void)
{
	size_t dirty = heap_dirty();

	if (soft_limit_is_exceeded())
		return RECLAIM_PRESSURE_MAX;
	return reclaim_pressure(dirty + hole_bytes(), dirty + heap_used());
}

static bool
reclaim_purge_cache(struct umem_cache *cache)
{
	umem_assert(worker_is_self());
	if (purge_left != 0)
		purge_left = difference_or_zero(
		    purge_left, page_purge(&cache->slabs, purge_left));
	return false;
}

size_t
reclaim_slab_pages(enum cache_walk walk, size_t bytes)
{
	/* In a child that a walk has forked, the next walk does nothing. */
	purge_left = bytes;
	if (bytes != 0)
		cache_walk_as_worker(walk, reclaim_purge_cache);
	return bytes - purge_left;
}

/*
 * Reclaims idle cached memory after the heap has grown.  Returns false if
 * another thread is the worker.
 */
static bool
reclaim_for_growth(size_t target)
{
	size_t bytes;

	if (!worker_begin())
		return false;
	cache_walk_as_worker(WALK_GROWTH, cache_reclaim_idle);
	bytes = difference_or_zero(hole_bytes(), target);
	reclaim_slab_pages(WALK_PURGE, size_min(bytes, RELEASE_LIMIT));
	worker_end();
	return true;
}

static bool
reap_without_calls(struct umem_cache *cache)
{
	if (!cache->calls_out)
		cache_reap(cache);
	return cache->calls_out || cache->reclaim != NULL;
}

bool
reclaim_caches_without_calls(void)
{
	return cache_walk_as_worker(WALK_ALL, reap_without_calls);
}

void
reclaim_slabs(size_t bytes)
{
	cache_walk_as_worker(WALK_ALL, cache_reclaim_idle);
	reclaim_slab_pages(WALK_ALL, bytes);
}

static bool
is_depot_reclaimable(struct umem_cache *cache)
{
	return cache_depot_bytes(cache) != 0;
}

/* Flushes the depot of a cache.  *bytes is the number of bytes still wanted. */
static bool
reclaim_flush_depot(struct umem_cache *cache, void *bytes)
{
	size_t *want = bytes;

	*want = difference_or_zero(*want, cache_flush_depot(cache));
	return *want != 0;
}

void
reclaim_depots(size_t bytes)
{
	cache_walk_beside_worker(
	    WALK_DEPOTS, is_depot_reclaimable, reclaim_flush_depot, &bytes);
}

/*
 * Returns the bytes by which the heap has grown since the last call that did
 * not return 0, if they are a step at least; otherwise 0.
 */
static size_t
growth_take(size_t clean, size_t step)
{
	size_t before = load_relaxed(&clean_seen);

	/*
	 * The difference is signed because another thread may have stored a
	 * later value.
	 */
	if (likely((ssize_t)(clean - before) < (ssize_t)step) ||
	    !__atomic_compare_exchange_n(&clean_seen, &before, clean, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	return clean - before;
}

void
reclaim_check(void)
{
	size_t at = load_relaxed(&reclaim_at);
	size_t total = heap_allocated_total(), clean = heap_allocated_clean();
	size_t target = idle_target(heap_committed());
	size_t step = size_min(target / STEP_PART, STEP_MAX), grown;
	int saved = errno;

	/* Signed, as in growth_take().  One thread of several does it. */
	if ((ssize_t)(total - at) < 0 ||
	    !__atomic_compare_exchange_n(&reclaim_at, &at, total + step, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	if (cache_walk_sum(TALLY_DEPOTS, cache_depot_bytes) > target)
		reclaim_depots(RELEASE_LIMIT);
	grown = growth_take(clean, step);
	if (grown != 0) {
		/* Undo the count, so that the next check tries again. */
		if (!reclaim_for_growth(target)) {
			sub_relaxed(&clean_seen, grown);
			store_relaxed(&reclaim_at, total);
		}
	}
	errno = saved;
}
