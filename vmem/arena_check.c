/*
 * arena_check.c - the invariants of an arena, tested
 *
 * arena_check_locked() examines every segment.  The debug build calls it after
 * every change of a small arena, but only once for every n changes of an arena
 * with n segments if n is larger than CHECK_ALWAYS.  The time for checks is
 * therefore in proportion to the number of changes.
 */
#include "vmem/arena_inner.h"

/* Most segments of an arena that a debug build checks after every change. */
#define CHECK_ALWAYS 64

/* The sums of a walk along the ring of tags. */
struct census {
	size_t inuse;
	size_t total;
	size_t imported;
	size_t nspans;
	size_t nallocated;
	size_t nfree;
};

static struct census
arena_census(const vmem_t *arena)
{
	struct census c = {.inuse = 0};
	const struct segment *seg = segment_next(&arena->head);

	for (; seg != &arena->head; seg = segment_next(seg)) {
		if (seg->type == VMEM_SPAN) {
			c.nspans++;
			c.total += seg->size;
			c.imported += seg->imported ? seg->size : 0;
		} else if (seg->type == VMEM_ALLOC) {
			c.nallocated++;
			c.inuse += seg->size;
		} else {
			c.nfree++;
		}
	}
	return c;
}

static bool
arena_check_locked(const vmem_t *arena)
{
	lock_assert_held(&arena->lock);
	if (!segment_check(&arena->head, arena->spans) ||
	    !freelist_check(&arena->free) || !seghash_check(&arena->hash))
		return false;

	struct census c = arena_census(arena);

	return segment_reserve_check(&arena->reserve) &&
	       c.inuse == arena->stats.inuse && c.total == arena->stats.total &&
	       c.imported == arena->stats.imported &&
	       c.nspans == arena->nspans && c.nallocated == arena->hash.nsegs &&
	       c.nfree == arena->free.nsegs;
}

bool
arena_check(vmem_t *arena)
{
	lock_take(&arena->lock);
	bool sound = arena_check_locked(arena);
	lock_release(&arena->lock);
	return sound;
}

#ifdef UMEM_DEBUG
bool
arena_check_sampled_locked(vmem_t *arena)
{
	size_t n = arena->hash.nsegs + arena->free.nsegs;

	lock_assert_held(&arena->lock);
	if (n > CHECK_ALWAYS && ++arena->nchecks < n)
		return true;
	arena->nchecks = 0;
	return arena_check_locked(arena);
}
#endif
