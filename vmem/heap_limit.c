/*
 * heap_limit.c - the hard limit of the heap's memory
 *
 * The memory that counts is that of heap_held(): allocated units and dirty
 * units.  Of the units for samples only the pages in use count, because a
 * sample of some bytes has a unit for itself; a sample asks for its pages.
 * Pages that were released from the middle of a slab count, because the program
 * gets them back by writing to them, without a request that could fail.
 *
 * A request is refused at once if it would not fit even after a purge of all
 * dirty units.  Otherwise the heap allocates the block, which may consist of
 * dirty units and is then within the limit, and purges dirty units as needed.
 * It checks the limit after the block is allocated, so that two threads cannot
 * exceed it together.  The caller, a layer above, releases cached memory and
 * repeats a request that is refused.  Therefore the heap does not count
 * refusals: the caller counts a request at its end (heap_limit_blame()).
 */
#include "vmem/account.h"
#include "vmem/heap_inner.h"
#include "vmem/os.h"

struct heap_limits heap_limits;

static size_t
heap_limit_get(void)
{
	size_t limit = load_relaxed(&heap_limits.hard);

	return limit == 0 ? SIZE_MAX : limit;
}

/*
 * Bytes of allocated units, without foreign mappings and without what has no
 * memory: quarantined blocks, and a part of the units for samples.
 */
static size_t
heap_occupied(void)
{
	return difference_or_zero(
	    heap_used(), heap_foreign() + account_get(&account.quarantined) +
			     account_samples_absent());
}

size_t
heap_held(void)
{
	return heap_occupied() + heap_dirty();
}

bool
heap_limit_has_room(size_t bytes)
{
	size_t limit = heap_limit_get(), occupied;

	if (likely(limit == SIZE_MAX))
		return true;
	occupied = heap_occupied();
	return bytes <= limit && occupied <= limit - bytes;
}

bool
heap_limit_keep(void)
{
	size_t limit = heap_limit_get(), held;

	if (likely(limit == SIZE_MAX))
		return true;
	held = heap_held();
	if (held <= limit)
		return true;
	os_purge_force(true);
	heap_purge(
	    0, align_up(held - limit + limit / HEAP_SPARE_PART, HEAP_UNIT));
	os_purge_force(false);
	return heap_held() <= limit;
}

void
heap_limit_blame(size_t bytes)
{
	/* Dirty units take room as long as the kernel does not purge them. */
	size_t stuck = os_may_purge_by_force() ? 0 : heap_dirty();

	if (!heap_limit_has_room(bytes + stuck))
		add_relaxed(&heap_limits.nhard, 1);
}
