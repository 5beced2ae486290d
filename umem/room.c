/*
 * room.c - memory for who asks the heap, from what caches keep
 *
 * Growth
 *	Each time the heap has taken GROWTH_STEP of fresh memory, caches give
 *	back what they keep and do not use: a page that is there already is
 *	cheaper than a new one, and a program that grows may be at its peak.
 *	That is what depots were not asked for since the last time, and idle
 *	giants.  Free whole pages of slabs go to the kernel if they are worth
 *	it: twice as much as was taken where a sixteenth of the heap lies free
 *	in slabs, since some will be wanted again, and to make up for a long
 *	growth where it is a fourth.
 *
 * Demand
 *	Each time the heap has handed out a part of itself, fresh or not, and
 *	the depots hold a larger part of it, they give back all, up to a limit.
 *	For somebody asks for memory for objects of one size that lies there
 *	for others.  A program that goes round some sizes would else end with as
 *	much in each depot as it ever had of that size: each is used in every
 *	round, so it has no surplus, and the heap grows a little in each until
 *	all fits at once, into no cache of the CPU and no TLB.  A program that
 *	uses its sizes alike asks the heap for nothing, and its depots keep all.
 *	Caches with a constructor keep what is constructed in any case.
 *
 *	Whoever finds depots too full empties them, several threads at once if
 *	so: one that the kernel has put aside meanwhile would let the others
 *	take in some milliseconds ten times what they use.
 *
 * Locking: counters are atomic.  For growth who finds that there is something to
 * do does it as the worker (worker.c), or leaves it to the next who looks if
 * there is one at work.
 */
#include <errno.h>
#include <sys/types.h>

#include "umem/cache.h"
#include "umem/quiet.h"
#include "umem/room.h"
#include "umem/worker.h"
#include "vmem/heap.h"

#define GROWTH_STEP   (1 * MIB)
#define GROWTH_SWEEPS 2
#define HOLES_LEAST   (2 * MIB)
#define HOLES_PART    16
#define MANY_SWEEPS   12
#define MANY_HOLES    (8 * MIB)
#define MANY_PART     4

/* Handed out between two looks: this part of the heap, within these. */
#define DEMAND_PART  32
#define DEMAND_LEAST (256 * KIB)
#define DEMAND_MOST  (4 * MIB)
/* Depots that hold this part of the heap, and so much, hold too much. */
#define DEPOTS_PART  8
#define DEPOTS_LEAST (1 * MIB)
/* Given back at one look: a millisecond's work, and more than was asked for. */
#define DEPOTS_LIMIT (2 * DEMAND_MOST)

static size_t fresh_seen;  /* [a] */
static size_t handed_seen; /* [a] */
static size_t left;        /* [worker] bytes to give back */

/* Bytes of free chunks that have memory, about. */
static size_t
holes_of(struct umem_cache *cache)
{
	size_t total = slab_total(&cache->slabs);
	size_t used = slab_used(&cache->slabs);

	return cache->slabs.source == NULL && used < total
		   ? (total - used) * cache->slabs.layout.chunk
		   : 0;
}

/* Bytes worth taking from slabs for so many that the heap has grown by. */
static size_t
sweep_worth(size_t grown)
{
	size_t heap = heap_committed();
	size_t swept = slab_swept_bytes();
	size_t holes = tally_caches(TALLY_HOLES, holes_of);

	holes = holes > swept ? holes - swept : 0;
	if (holes >= MANY_HOLES && holes >= heap / MANY_PART)
		return MANY_SWEEPS * grown;
	if (holes >= HOLES_LEAST && holes >= heap / HOLES_PART)
		return GROWTH_SWEEPS * grown;
	return 0;
}

static size_t
less(size_t bytes, size_t taken)
{
	return taken < bytes ? bytes - taken : 0;
}

static bool
sweep_some(struct umem_cache *cache)
{
	if (left != 0)
		left = less(left, slab_sweep(&cache->slabs, left));
	return false;
}

/*
 * The heap grows: for want of memory, or because it lies elsewhere?  False:
 * somebody else is at work.
 */
static bool
make_up_for(size_t grown)
{
	if (!worker_begin())
		return false;
	worker_some_caches(WALK_GROWTH, cache_make_room);
	left = sweep_worth(grown);
	if (left != 0)
		worker_some_caches(WALK_SWEEP, sweep_some);
	worker_end();
	return true;
}

static bool
has_depot(struct umem_cache *cache)
{
	return cache_in_depot(cache) != 0;
}

/* bytes: that are still wanted. */
static bool
empty_depot(struct umem_cache *cache, void *bytes)
{
	size_t *want = bytes;

	*want = less(*want, cache_empty_depot(cache));
	return *want != 0;
}

static void
empty_depots(void)
{
	size_t most = heap_committed() / DEPOTS_PART;
	size_t want = DEPOTS_LIMIT;

	if (tally_caches(TALLY_DEPOTS, cache_in_depot) >
	    (most > DEPOTS_LEAST ? most : DEPOTS_LEAST))
		visit_some_caches(WALK_DEPOTS, has_depot, empty_depot, &want);
}

/* More than a step since *seen, which is now what it is now; or 0. */
static size_t
since(size_t *seen, size_t now, size_t step)
{
	size_t was = __atomic_load_n(seen, __ATOMIC_RELAXED);

	/* Signed: somebody may have seen more by now. */
	if (likely((ssize_t)(now - was) < (ssize_t)step) ||
	    !__atomic_compare_exchange_n(
		seen, &was, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	return now - was;
}

static size_t
demand_step(void)
{
	size_t step = heap_committed() / DEMAND_PART;

	if (step > DEMAND_MOST)
		return DEMAND_MOST;
	return step > DEMAND_LEAST ? step : DEMAND_LEAST;
}

void
room_look(uint64_t now_ns)
{
	size_t fresh = heap_fresh();
	size_t grown = since(&fresh_seen, fresh, GROWTH_STEP);
	size_t asked = since(&handed_seen, heap_handed(), demand_step());
	int saved = errno;

	if (unlikely(asked != 0))
		empty_depots();
	if (unlikely(grown != 0)) {
		quiet_grew(now_ns, fresh);
		/* What was not done is seen again. */
		if (!make_up_for(grown))
			__atomic_sub_fetch(
			    &fresh_seen, grown, __ATOMIC_RELAXED);
	}
	errno = saved;
}
