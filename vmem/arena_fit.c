/*
 * arena_fit.c - the policies: which free segment serves a request
 *
 * Instant, best and small first fits search the free lists by size
 * (freelist.c).  First fit with many free segments, and next fit, search the
 * ring of all tags by address.
 *
 * Next fit continues where the last one ended.  A tag of its own, the rotor,
 * marks the place in the ring, and rotor_at has the address.  Merges and cuts
 * move the tags of segments past the rotor, so the next search first moves the
 * rotor to the place of its address.
 *
 * Locking: the caller holds arena->lock.
 */
#include "vmem/arena_inner.h"

/*
 * With at most this number of free segments, first fit searches the free lists
 * for the lowest address: all free segments of sufficient size.  The ring also
 * has the allocated segments below that address, of which there may be any
 * number.  The limit bounds the cost of the lists where the lowest segment of
 * the ring would do: 0.5 us with 240 free segments, 5.7 us with 950.
 */
#define FIRSTFIT_LISTS 256

/* First fit: the lowest address. */
static struct segment *
arena_first_fit_locked(
    vmem_t *arena, const struct request *req, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);
	if (arena->free.nsegs <= FIRSTFIT_LISTS)
		return freelist_search(&arena->free, CHOOSE_LOWEST, req, addr);

	struct segment *seg = segment_next(&arena->head);

	for (; seg != &arena->head; seg = segment_next(seg)) {
		if (seg->type == VMEM_FREE && request_fits(req, seg, addr))
			return seg;
	}
	return NULL;
}

/* Is the tag before the position of address at in the ring? */
static bool
tag_is_before(const struct segment *seg, uintptr_t at)
{
	return seg->type == VMEM_SPAN ? seg->start < at
				      : segment_last(seg) < at;
}

static void
rotor_move(struct segment *rotor, struct segment *after)
{
	segment_unlink(rotor);
	segment_link_after(after, rotor);
}

/*
 * Move the rotor's tag to its proper position, from which merges and cuts since
 * the last next fit may have separated it by a few tags.  Returns the tag of
 * the segment that contains rotor_at, or else the next tag.
 */
static struct segment *
rotor_update_locked(vmem_t *arena)
{
	lock_assert_held(&arena->lock);

	struct segment *rotor = &arena->rotor, *head = &arena->head;
	struct segment *seg;

	/* No next fit so far, or the last one ended at the largest integer. */
	if (arena->rotor_at == 0)
		return segment_next(head);
	while ((seg = segment_prev(rotor)) != head &&
	       !tag_is_before(seg, arena->rotor_at))
		rotor_move(rotor, seg->aprev);
	while ((seg = segment_next(rotor)) != head &&
	       tag_is_before(seg, arena->rotor_at))
		rotor_move(rotor, seg);
	return seg;
}

/* Next fit: continue where the last one ended, once around the ring. */
static struct segment *
arena_next_fit_locked(vmem_t *arena, const struct request *req, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);

	struct segment *first = rotor_update_locked(arena);
	struct request rest = *req;

	/*
	 * The segment that contains rotor_at comes first with its part above
	 * rotor_at, and comes last as a whole.
	 */
	rest.min = size_max(rest.min, arena->rotor_at);
	rest.plain = false;
	if (first->type == VMEM_FREE && request_fits(&rest, first, addr))
		return first;

	struct segment *seg = first;

	do {
		seg = segment_next(seg);
		if (seg->type == VMEM_FREE && request_fits(req, seg, addr))
			return seg;
	} while (seg != first);
	return NULL;
}

struct segment *
arena_search_locked(
    vmem_t *arena, const struct request *req, int policy, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);
	switch (policy) {
	case VM_BESTFIT:
		return freelist_search(
		    &arena->free, CHOOSE_SMALLEST, req, addr);
	case VM_FIRSTFIT:
		return arena_first_fit_locked(arena, req, addr);
	case VM_NEXTFIT:
		return arena_next_fit_locked(arena, req, addr);
	default:
		return freelist_instant(&arena->free, req, addr);
	}
}

void
arena_rotor_set_locked(vmem_t *arena, struct segment *seg)
{
	lock_assert_held(&arena->lock);
	rotor_move(&arena->rotor, seg);
	arena->rotor_at = seg->start + seg->size;
}
