/*
 * heap_commit.c - how far the heap has grown: reserve, commit, foreign units,
 * the end
 *
 * Reserved, committed
 *	The heap reserves (PROT_NONE) and commits memory on demand.  The arena
 *	allocates low addresses first.  When a block ends above committed_end,
 *	the heap reserves and commits the range up to the end of the block, in
 *	steps that grow with the heap.  A process has therefore reserved little
 *	more than it uses, as RLIMIT_AS, RLIMIT_DATA and strict overcommit
 *	require.
 *
 * Foreign mappings
 *	If a foreign mapping is in the way, the heap allocates its units from
 *	the arena and never frees them.  It records such ranges,
 *	because it must not give the kernel advice about
 *	the memory of others.
 *
 * Huge pages
 *	By default, the heap grows by huge pages where the program is likely
 *	to fill them (huge.c).  For other memory it advises the kernel against
 *	huge pages, independently of the default of the system.  After a purge
 *	it advises the kernel against huge pages in all committed memory.
 *
 * Locking: heap_lock guards committed_end and reserved_end.  It is held while
 * the kernel reserves and commits memory.
 *
 * Always true (heap_check_locked()): base <= committed_end <= reserved_end <=
 * end of the window;  the foreign mappings are below committed_end.
 */
#include <errno.h>

#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/heap_inner.h"
#include "vmem/huge.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

/*
 * A step of committed memory is 1/COMMIT_PART of the heap, within COMMIT_MIN
 * and COMMIT_MAX.  With small pages it is at most a huge page, or
 * 1/COMMIT_SMALL_PART of a large heap.
 */
#define COMMIT_PART       8
#define COMMIT_SMALL_PART 64
#define COMMIT_MAX        (64 * MIB)

/* Foreign mappings in [from, to), which the heap never allocates. */
struct foreign {
	uintptr_t from;
	uintptr_t to;
	struct foreign *next;
};

struct lock heap_lock = LOCK_INITIALIZER(LOCK_HEAP);
unsigned heap_ngrowing;

static struct foreign *foreign_ranges; /* [heap_lock] by descending address */
static size_t nforeign;                /* [atomic] units in them */
static uintptr_t committed_end;        /* [heap_lock] read atomically */
static uintptr_t reserved_end;         /* [heap_lock] */
static bool huge_used;                 /* [heap_lock] read atomically */

void
heap_commit_start(uintptr_t reserved)
{
	committed_end = heap_window.base;
	reserved_end = reserved;
}

/* Are the bounds of the heap in order, and the foreign ranges below its end? */
static inline bool
heap_check_locked(void)
{
	uintptr_t end = committed_end;
	size_t nunits = 0;

	lock_assert_held(&heap_lock);
	if (heap_window.base > committed_end || committed_end > reserved_end ||
	    reserved_end - heap_window.base > heap_window.units
						  << HEAP_UNIT_SHIFT)
		return false;
	for (struct foreign *f = foreign_ranges; f != NULL; f = f->next) {
		if (f->from >= f->to || f->to > end ||
		    f->from < heap_window.base)
			return false;
		nunits += (f->to - f->from) >> HEAP_UNIT_SHIFT;
		end = f->from;
	}
	return nunits == nforeign;
}

/* heap_forbid_huge() for each part between foreign ranges, from above. */
static void
forbid_huge_locked(void)
{
	lock_assert_held(&heap_lock);

	uintptr_t end = committed_end;

	for (struct foreign *foreign = foreign_ranges; foreign != NULL;
	     foreign = foreign->next) {
		if (foreign->to < end)
			os_huge((void *)foreign->to, end - foreign->to, false);
		end = foreign->from;
	}
	if (end > heap_window.base)
		os_huge(
		    (void *)heap_window.base, end - heap_window.base, false);
}

void
heap_forbid_huge(void)
{
	if (likely(!load_relaxed(&huge_used)))
		return;
	lock_take(&heap_lock);
	forbid_huge_locked();
	store_relaxed(&huge_used, false);
	lock_release(&heap_lock);
}

/*
 * Reserve address space up to end, or up to the unit with the first foreign
 * mapping below end.  Returns true if end was reached.
 */
static bool
reserve_pieces_locked(uintptr_t end)
{
	lock_assert_held(&heap_lock);

	size_t piece = end - reserved_end;

	while (reserved_end < end && piece >= HEAP_UNIT)
		if (piece <= end - reserved_end &&
		    os_reserve_at((void *)reserved_end, piece))
			reserved_end += piece;
		else
			piece = align_down(piece / 2, HEAP_UNIT);
	return reserved_end == end;
}

/* Reserve address space up to end at least. */
static enum commit_result
reserve_locked(uintptr_t end)
{
	lock_assert_held(&heap_lock);

	uintptr_t window_end =
	    heap_window.base + (heap_window.units << HEAP_UNIT_SHIFT);
	size_t step = reserved_end - heap_window.base;
	size_t need = end - reserved_end;

	if (end <= reserved_end)
		return COMMITTED;
	if (heap_reserve_ahead != 0)
		step = size_min(step / 8, heap_reserve_ahead);
	if (step < need)
		step = heap_reserve_ahead != 0 ? need
					       : align_up(need, RESERVE_MIN);
	step = align_down(size_min(step, window_end - reserved_end), HEAP_UNIT);
	if (step > need && os_reserve_at((void *)reserved_end, step)) {
		reserved_end += step;
		return COMMITTED;
	}
	if (os_reserve_at((void *)reserved_end, need)) {
		reserved_end += need;
		return COMMITTED;
	}
	/* Is there too little address space, or a mapping in the way? */
	void *attempt = os_reserve(NULL, need);
	if (attempt == NULL)
		return NO_MEMORY;
	os_unmap(attempt, need);
	return reserve_pieces_locked(end) ? COMMITTED : FOREIGN_MAPPING;
}

/* Commit memory up to end, with or without huge pages. */
static bool
commit_to_locked(uintptr_t end, bool huge)
{
	lock_assert_held(&heap_lock);
	umem_assert(((end - heap_window.base) & (HEAP_UNIT - 1)) == 0);
	if (!heap_states_commit_locked(end) ||
	    !os_commit((void *)committed_end, end - committed_end))
		return false;
	os_huge((void *)committed_end, end - committed_end, huge);
	if (huge)
		store_relaxed(&huge_used, true);
	os_name((void *)committed_end, end - committed_end, "umem heap");
	huge_growth_record(committed_end, end, huge);
	probe_fire(umem, heap_grow, committed_end, end - committed_end);
	/* Release: pairs with the load in heap_commit(). */
	store_release(&committed_end, end);
	return true;
}

/*
 * The address up to which to commit when memory up to end is needed.  The heap
 * grows by an eighth.  With small pages a larger heap grows by less, so that
 * huge_growth_max() is asked again soon.
 */
static uintptr_t
commit_goal_locked(uintptr_t end, bool huge)
{
	lock_assert_held(&heap_lock);

	size_t heap = committed_end - heap_window.base;
	size_t step = align_down(heap / COMMIT_PART, HEAP_UNIT);
	size_t most = huge ? COMMIT_MAX : HUGE_PAGE;

	if (!huge && most < heap / COMMIT_SMALL_PART)
		most = align_down(heap / COMMIT_SMALL_PART, HEAP_UNIT);
	step = size_max(step, COMMIT_MIN);
	step = size_min(step, most);
	step += committed_end;
	step = size_max(step, end);
	return step < reserved_end ? step : reserved_end;
}

/* Commit up to goal: runs of huge pages, and pieces with small pages. */
static bool
commit_huge_locked(uintptr_t goal)
{
	lock_assert_held(&heap_lock);
	while (committed_end < goal) {
		bool small;
		size_t most = huge_growth_next(&small);
		uintptr_t end =
		    committed_end + size_min(goal - committed_end, most);

		/*
		 * A whole huge page, as far as address space is reserved.  This
		 * avoids a partly committed one.
		 */
		if (align_up(end, HUGE_PAGE) <= reserved_end)
			end = align_up(end, HUGE_PAGE);
		if (!commit_to_locked(end, !small))
			return false;
	}
	return true;
}

/*
 * Commit up to end at least, and up to goal if possible.  huge is the most
 * bytes to commit with huge pages.
 */
static bool
commit_growth_locked(uintptr_t end, uintptr_t goal, size_t huge)
{
	lock_assert_held(&heap_lock);
	if (huge != 0) {
		if (huge < goal - committed_end)
			goal = align_down(committed_end + huge, HUGE_PAGE);
		if (!commit_huge_locked(goal))
			return false;
		goal = end;
	}
	return committed_end >= goal || commit_to_locked(goal, false);
}

static enum commit_result
heap_commit_locked(uintptr_t end)
{
	lock_assert_held(&heap_lock);

	enum commit_result got;
	uintptr_t goal;
	size_t huge;

	if (end <= committed_end)
		return COMMITTED;
	got = reserve_locked(end);
	if (got != COMMITTED)
		return got;
	huge = huge_growth_max(committed_end - heap_window.base);
	goal = commit_goal_locked(end, huge != 0);
	if (commit_growth_locked(end, goal, huge))
		return COMMITTED;
	/* A limit of the process may be near: commit no more than needed. */
	if (committed_end >= end ||
	    (goal > end && commit_to_locked(end, false)))
		return COMMITTED;
	return NO_MEMORY;
}

enum commit_result
heap_commit(uintptr_t end)
{
	enum commit_result got;

	/* Sequentially consistent: see heap_end_release(). */
	if (likely(end <= __atomic_load_n(&committed_end, __ATOMIC_SEQ_CST)))
		return COMMITTED;
	lock_take(&heap_lock);
	got = heap_commit_locked(end);
	umem_assert(heap_check_locked());
	lock_release(&heap_lock);
	return got;
}

/*
 * Record the unit at address at as foreign; it is above all others.
 * Returns false if there is no memory.
 */
static bool
foreign_record_locked(uintptr_t at)
{
	lock_assert_held(&heap_lock);

	struct foreign *foreign = foreign_ranges;

	if (foreign == NULL || foreign->to != at) {
		foreign = meta_alloc(sizeof(*foreign));
		if (foreign == NULL)
			return false;
		*foreign = (struct foreign){at, at, foreign_ranges};
		foreign_ranges = foreign;
	}
	foreign->to = at + HEAP_UNIT;
	add_relaxed(&nforeign, 1);
	return true;
}

bool
heap_foreign_take(void)
{
	bool taken = false;

	lock_take(&heap_lock);
	uintptr_t at = reserved_end;
	lock_release(&heap_lock);

	if (vmem_xalloc(heap_arena, HEAP_UNIT, HEAP_UNIT, 0, 0, (void *)at,
		(void *)(at + HEAP_UNIT), VM_NOSLEEP) == NULL)
		return false;
	lock_take(&heap_lock);
	/* Commit all memory below it before committed_end moves on. */
	if (reserved_end == at && commit_to_locked(at, false) &&
	    foreign_record_locked(at)) {
		reserved_end = at + HEAP_UNIT;
		store_release(&committed_end, reserved_end);
		taken = true;
	}
	umem_assert(heap_check_locked());
	lock_release(&heap_lock);
	if (!taken)
		vmem_xfree(heap_arena, (void *)at, HEAP_UNIT);
	return taken;
}

/*
 * Unmap the heap from address from on.  The caller has allocated [from, top)
 * from the arena.  Returns false if top is no longer the committed end, a unit
 * is not clean, a heap_grow() is in progress, or the kernel refuses.
 */
static bool
end_unmap_locked(uintptr_t from, uintptr_t top)
{
	lock_assert_held(&heap_lock);
	if (committed_end != top || !heap_states_are_clean(from, top))
		return false;
	__atomic_store_n(&committed_end, from, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&heap_ngrowing, __ATOMIC_SEQ_CST) != 0 ||
	    !os_unmap((void *)from, reserved_end - from)) {
		__atomic_store_n(&committed_end, top, __ATOMIC_SEQ_CST);
		return false;
	}
	reserved_end = from;
	return true;
}

/*
 * No block loses its memory.  This thread first allocates the range from the
 * arena, so that no other thread has a block there.  A thread that allocates a
 * block there later reads the lower committed_end, because the arena's lock
 * orders the store before that allocation.  Its heap_commit() therefore commits
 * the memory again.
 *
 * Only heap_grow() reads committed_end before it has allocated its range.  It
 * increments heap_ngrowing before that read.  end_unmap_locked() reads
 * heap_ngrowing after it has lowered committed_end.  All four accesses are
 * sequentially consistent.  Therefore either heap_grow() reads the lower
 * committed_end and waits for heap_lock, or end_unmap_locked() reads the count
 * and unmaps nothing.
 */
void
heap_end_release(size_t least)
{
	int saved = errno;
	bool released;

	do {
		uintptr_t top, floor;
		void *at = NULL;

		lock_take(&heap_lock);
		floor = foreign_ranges != NULL ? foreign_ranges->to
					       : heap_window.base;
		top = committed_end;
		lock_release(&heap_lock);
		released = false;
		for (size_t bytes = top - floor; bytes >= least && at == NULL;
		     bytes = align_down(bytes / 2, HEAP_UNIT)) {
			uintptr_t from = top - bytes;

			at = vmem_xalloc(heap_arena, bytes, HEAP_UNIT, 0, 0,
			    (void *)from, (void *)top, VM_NOSLEEP);
			if (at == NULL)
				continue;
			lock_take(&heap_lock);
			released = end_unmap_locked(from, top);
			umem_assert(heap_check_locked());
			lock_release(&heap_lock);
			vmem_xfree(heap_arena, at, bytes);
		}
	} while (released);
	errno = saved;
}

size_t
heap_committed(void)
{
	return load_acquire(&committed_end) - heap_window.base;
}

size_t
heap_foreign(void)
{
	return load_relaxed(&nforeign) << HEAP_UNIT_SHIFT;
}

DESCRIBE(DESCRIBED_COMMIT);
