/*
 * soft_limit.c - releases memory when the heap exceeds the soft limit
 *
 * The limit is on the heap's memory that is not returned to the kernel:
 * heap_held() without the pages purged in slabs.  The excess is one more reason
 * for the releases of reclaim.c, so it has no thread or clock of its own: each
 * step and each update examines it.
 *
 * Order
 *	dirty pages, depots, empty slabs and free pages of slabs, CPU caches.
 *	Then, in the upkeep thread only, the reclaim callbacks and the caches
 *	whose slabs cannot be destroyed without a call of the program.  The
 *	release ends as soon as the heap is 1/HEAP_SPARE_PART below the limit.
 *
 * Hysteresis
 *	A release that leaves the heap above the limit has released all idle
 *	memory that it could.  Therefore the next one is due when the heap has
 *	grown by 1/HEAP_SPARE_PART of the limit, when so much more memory is
 *	idle, or when the heap has been below the limit.  A program that uses
 *	more than the limit itself thus keeps its caches.
 *
 * Locking: only the worker releases.  The other accesses are atomic.
 */
#include "umem/cache/worker.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/soft_limit.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Above the limit, a release is due with more memory, or idle memory. */
static size_t due_limit seldom_used; /* [a] the limit for which these are */
static size_t due_bytes seldom_used; /* [a] */
static size_t due_idle seldom_used;  /* [a] */

/* The heap's memory that is not returned to the kernel; takes a lock. */
static size_t
memory_now(void)
{
	return difference_or_zero(heap_held(), page_purge_bytes());
}

bool
soft_limit_is_exceeded(void)
{
	size_t limit = load_relaxed(&heap_limits.soft);

	return limit != 0 && memory_now() > limit;
}

/* Sets the memory, and the idle memory, above which a release is due. */
static void
set_due(size_t limit, size_t bytes, size_t idle)
{
	store_relaxed(&due_bytes, bytes);
	store_relaxed(&due_idle, idle);
	store_relaxed(&due_limit, limit);
}

bool
soft_limit_is_due(void)
{
	size_t limit = load_relaxed(&heap_limits.soft), now;

	if (likely(limit == 0))
		return false;
	now = memory_now();
	if (now <= limit || load_relaxed(&due_limit) != limit)
		set_due(limit, limit, SIZE_MAX);
	return now > load_relaxed(&due_bytes) ||
	       (now > limit && reclaim_idle_bytes() > load_relaxed(&due_idle));
}

/* Releases about want bytes from the levels up to this one. */
static void
release_level(unsigned level, size_t want)
{
	switch (level) {
	case 0:
		break;
	case 1:
		reclaim_depots(want);
		break;
	case 2:
		reclaim_slabs(want);
		break;
	default:
		reclaim_caches_without_calls();
		reclaim_slabs(want);
	}
	heap_purge(0, want);
}

bool
soft_limit_release(size_t most)
{
	size_t limit = load_relaxed(&heap_limits.soft),
	       goal = limit - limit / HEAP_SPARE_PART, now;

	umem_assert(worker_is_self());
	if (!soft_limit_is_due())
		return true;
	add_relaxed(&heap_limits.nsoft, 1);
	now = memory_now();
	/* Locked memory counts for the limit, too. */
	os_purge_force(true);
	for (unsigned level = 0; level < 4 && now > goal; level++) {
		size_t want = align_up(now - goal, HEAP_UNIT);

		release_level(level, want < most ? want : most);
		now = memory_now();
	}
	os_purge_force(false);
	/* After a release that most has cut short, the next one is due soon. */
	if (now > limit && heap_dirty() < most)
		set_due(limit, now + limit / HEAP_SPARE_PART,
		    reclaim_idle_bytes() + limit / HEAP_SPARE_PART);
	return now <= limit;
}
