/*
 * walk.c - queries: walk the segments, test a range, sum the sizes
 *
 * A walk follows the ring of tags with the arena's lock held.  A reentrant walk
 * drops the lock for each call of the callback.  A mark holds its position in
 * the ring: a tag of size 0 on the stack of the walking thread (segment.c).
 * The walk therefore needs no memory, and no search to continue, however the
 * tags around the mark change.
 *
 * Locking: the arena's lock guards the ring and the list of walkers.
 */
#include "vmem/arena.h"
#include "vmem/syscall.h"

public int
vmem_contains(vmem_t *arena, void *addr, size_t size)
{
	uintptr_t start = (uintptr_t)addr;
	uintptr_t last = start + (size - 1);

	if (size == 0 || last < start)
		return 0;
	lock_take(&arena->lock);
	const struct segment *span =
	    span_near(arena->spans, start, /* above */ false);
	bool inside = span != NULL && last <= segment_last(span);
	lock_release(&arena->lock);
	return inside;
}

static void
walk_under_lock(vmem_t *arena, int typemask,
    void (*func)(void *arg, void *start, size_t size), void *arg)
{
	struct segment *seg;

	lock_take(&arena->lock);
	for (seg = segment_next(&arena->head); seg != &arena->head;
	     seg = segment_next(seg)) {
		if ((seg->type & typemask) != 0)
			func(arg, (void *)seg->start, seg->size);
	}
	lock_release(&arena->lock);
}

/*
 * Has the walk reported this segment already?  reported is the last integer
 * that reports have covered: at first 0, which is in no span.  The report of a
 * span covers only the integers below it.  A segment that func frees may be
 * merged with the free segment behind the mark, and allocated again there.
 * Without this test, a walk would never end if func replaced each segment that
 * it is called for.
 */
static bool
walk_has_reported(const struct segment *seg, uintptr_t reported)
{
	return (seg->type == VMEM_SPAN ? seg->start : segment_last(seg)) <=
	       reported;
}

/*
 * Walk with the lock dropped for each call of func.  Meanwhile the mark stands
 * directly behind the segment that func is called for.
 */
static void
walk_reentrant(vmem_t *arena, int typemask,
    void (*func)(void *arg, void *start, size_t size), void *arg)
{
	struct walker walker = {.thread = thread_self()};
	struct segment *mark = &walker.mark;
	struct segment *seg;
	uintptr_t reported = 0;

	segment_init(mark, VMEM_WALKER);
	lock_take(&arena->lock);
	list_add_head(&arena->walkers, &walker.link);
	segment_link_after(&arena->head, mark);
	while ((seg = segment_next(mark)) != &arena->head) {
		uintptr_t start = seg->start;
		size_t size = seg->size;

		segment_unlink(mark);
		segment_link_after(seg, mark);
		if ((seg->type & typemask) == 0 ||
		    walk_has_reported(seg, reported))
			continue;
		reported =
		    seg->type == VMEM_SPAN ? start - 1 : segment_last(seg);
		lock_release(&arena->lock);
		func(arg, (void *)start, size);
		lock_take(&arena->lock);
	}
	segment_unlink(mark);
	list_remove(&walker.link);
	lock_release(&arena->lock);
}

public void
vmem_walk(vmem_t *arena, int typemask,
    void (*func)(void *arg, void *start, size_t size), void *arg)
{
	int types = typemask & (VMEM_ALLOC | VMEM_FREE | VMEM_SPAN);

	if ((typemask & VMEM_REENTRANT) != 0)
		walk_reentrant(arena, types, func, arg);
	else
		walk_under_lock(arena, types, func, arg);
}

public size_t
vmem_size(vmem_t *arena, int typemask)
{
	size_t size = 0;

	lock_take(&arena->lock);
	if ((typemask & VMEM_ALLOC) != 0)
		size += arena->stats.inuse;
	if ((typemask & VMEM_FREE) != 0)
		size += arena->stats.total - arena->stats.inuse;
	lock_release(&arena->lock);
	return size;
}
