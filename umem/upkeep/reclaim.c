/*
 * reclaim.c - reclaims cached memory when the heap grows or is asked for much
 *
 * Growth
 *	After every GROWTH_STEP of memory never used before that the heap has
 *	allocated, caches release memory that they keep and do not use.  Because
 *	a page that is already mapped is cheaper than a new one, this memory
 *	should serve the growth first; and a program that grows may be at its
 *	peak.  The caches release the surplus of their depots since the last
 *	time, and idle magazines of large classes.  Free whole pages of slabs
 *	are purged if that is worth it: twice the bytes of the growth where a
 *	sixteenth of the heap is free in slabs, since some of these pages will
 *	be used again; and MANY_PURGES times the growth, to make up for a long
 *	growth, where a quarter of the heap is free in slabs.
 *
 * Demand
 *	After every heap/DEMAND_PART bytes allocated from the heap, used before
 *	or not, if all depots together hold more than heap/DEPOTS_PART, they are
 *	flushed to the slabs, up to a limit.  Because the heap is being asked,
 *	the program wants memory for some sizes that depots hold for others.
 *	Otherwise a program that uses several sizes in turn would end with as
 *	much in each depot as it ever had of that size: each depot is used in
 *	every turn, so it has no surplus, and the heap grows a little in each
 *	turn until all sizes fit at once, too much for the CPU's caches and its
 *	TLB.  A program that uses its sizes evenly asks the heap for nothing, so
 *	its depots keep everything.  Caches with a constructor keep their
 *	constructed objects in any case.
 *
 *	Any thread may flush the depots, concurrently with others.  If only one
 *	were allowed and the kernel preempted it, the others could allocate ten
 *	times their working set within some milliseconds.
 *
 * Locking: the counters are atomic.  The thread that detects growth reclaims as
 * the worker (worker.c).  If another thread is the worker, the next check does
 * it.
 */
#include <assert.h>
#include <errno.h>
#include <sys/types.h>

#include "umem/cache/cache.h"
#include "umem/cache/cache_walk.h"
#include "umem/upkeep/idle.h"
#include "umem/upkeep/reclaim.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/panic.h"

#define GROWTH_STEP   (1 * MIB)
#define GROWTH_PURGES 2
#define HOLES_LEAST   (2 * MIB)
#define HOLES_PART    16
#define MANY_PURGES   12
#define MANY_HOLES    (8 * MIB)
#define MANY_PART     4

/*
 * Bytes allocated between two checks: this part of the heap, within these
 * limits.
 */
#define DEMAND_PART  32
#define DEMAND_LEAST (256 * KIB)
#define DEMAND_MOST  (4 * MIB)
/*
 * Depots together hold too much if they hold more than this part of the heap
 * and more than this many bytes.
 */
#define DEPOTS_PART  8
#define DEPOTS_LEAST (1 * MIB)
/*
 * Bytes flushed per check: a millisecond's work, and more than was allocated
 * since the last check.
 */
#define DEPOTS_LIMIT (2 * DEMAND_MOST)

static_assert(DEMAND_LEAST <= DEMAND_MOST && DEPOTS_LIMIT >= DEMAND_MOST,
    "a check flushes at least what was allocated since the last check");
static_assert(MANY_PURGES > GROWTH_PURGES && MANY_HOLES > HOLES_LEAST &&
		  MANY_PART < HOLES_PART,
    "more free bytes in slabs allow more to be purged");

static size_t fresh_seen;     /* [a] */
static size_t allocated_seen; /* [a] */
static size_t purge_left;     /* [worker] bytes still to purge */

size_t reclaim_at;

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

/* The bytes worth purging in slabs after the heap has grown by grown bytes. */
static size_t
reclaim_purge_worth(size_t grown)
{
	size_t heap = heap_committed();
	size_t swept = page_purge_bytes();
	size_t holes = cache_walk_sum(TALLY_HOLES, reclaimable_hole_bytes);

	holes = holes > swept ? holes - swept : 0;
	if (holes >= MANY_HOLES && holes >= heap / MANY_PART)
		return MANY_PURGES * grown;
	if (holes >= HOLES_LEAST && holes >= heap / HOLES_PART)
		return GROWTH_PURGES * grown;
	return 0;
}

static size_t
bytes_left(size_t bytes, size_t taken)
{
	return taken < bytes ? bytes - taken : 0;
}

static bool
reclaim_purge_cache(struct umem_cache *cache)
{
	umem_assert(worker_is_self());
	if (purge_left != 0)
		purge_left = bytes_left(
		    purge_left, page_purge_sparse(&cache->slabs, purge_left));
	return false;
}

/*
 * Reclaims idle cached memory after the heap has grown by grown bytes.  Returns
 * false if another thread is the worker.
 */
static bool
reclaim_for_growth(size_t grown)
{
	if (!worker_begin())
		return false;
	cache_walk_as_worker(WALK_GROWTH, cache_reclaim_idle);
	purge_left = reclaim_purge_worth(grown);
	if (purge_left != 0)
		cache_walk_as_worker(WALK_PURGE, reclaim_purge_cache);
	worker_end();
	return true;
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

	*want = bytes_left(*want, cache_flush_depot(cache));
	return *want != 0;
}

static void
reclaim_flush_depots(void)
{
	size_t most = heap_committed() / DEPOTS_PART;
	size_t want = DEPOTS_LIMIT;

	if (cache_walk_sum(TALLY_DEPOTS, cache_depot_bytes) >
	    (most > DEPOTS_LEAST ? most : DEPOTS_LEAST))
		cache_walk_beside_worker(WALK_DEPOTS, is_depot_reclaimable,
		    reclaim_flush_depot, &want);
}

/*
 * Returns the growth of *seen to now and stores now there, if the growth is at
 * least step; otherwise returns 0.
 */
static size_t
counter_advance(size_t *seen, size_t now, size_t step)
{
	size_t before = __atomic_load_n(seen, __ATOMIC_RELAXED);

	/*
	 * The difference is signed because another thread may have stored a
	 * later value.
	 */
	if (likely((ssize_t)(now - before) < (ssize_t)step) ||
	    !__atomic_compare_exchange_n(
		seen, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	return now - before;
}

static size_t
demand_step(void)
{
	size_t step = heap_committed() / DEMAND_PART;

	if (step > DEMAND_MOST)
		return DEMAND_MOST;
	return step > DEMAND_LEAST ? step : DEMAND_LEAST;
}

/*
 * Sets reclaim_at to the least total with growth or demand to reclaim for.
 * Memory never used before is part of the total, so growth of the heap raises
 * both counters.  Of two threads here, one may store a value that is too low,
 * which costs a check; or, beside a thread that takes its count of growth back,
 * one that is too high by GROWTH_STEP at most.
 */
static void
reclaim_at_set(void)
{
	size_t total = heap_allocated_total();
	size_t growth = GROWTH_STEP +
			__atomic_load_n(&fresh_seen, __ATOMIC_RELAXED) -
			heap_allocated_clean();
	size_t demand = demand_step() +
			__atomic_load_n(&allocated_seen, __ATOMIC_RELAXED) -
			total;

	__atomic_store_n(&reclaim_at,
	    total + ((ssize_t)growth < (ssize_t)demand ? growth : demand),
	    __ATOMIC_RELAXED);
}

void
reclaim_check(uint64_t now_ns)
{
	size_t fresh = heap_allocated_clean();
	size_t grown = counter_advance(&fresh_seen, fresh, GROWTH_STEP);
	size_t demand = counter_advance(
	    &allocated_seen, heap_allocated_total(), demand_step());
	int saved = errno;

	if (unlikely(demand != 0))
		reclaim_flush_depots();
	if (unlikely(grown != 0)) {
		idle_heap_grew(now_ns, fresh);
		/* Undo the count, so that the next check tries again. */
		if (!reclaim_for_growth(grown))
			__atomic_sub_fetch(
			    &fresh_seen, grown, __ATOMIC_RELAXED);
	}
	reclaim_at_set();
	errno = saved;
}
