/*
 * heap.c - the root arena of memory: reserve, commit, allocate, purge
 *
 * Window, reserved, committed
 *	The heap is inside one window of address space (heap_window).  Because
 *	the window is fixed at start, tables over it are flat.  For the heap
 *	arena the window is a single span.  Its quantum is a unit (HEAP_UNIT,
 *	64 KiB).
 *
 *	The heap reserves (PROT_NONE) and commits memory on demand.  The arena
 *	allocates low addresses first.  When a block ends above committed_end,
 *	the heap reserves and commits the range up to the end of the block, in
 *	steps that grow with the heap.  A process has therefore reserved little
 *	more than it uses, as RLIMIT_AS, RLIMIT_DATA and strict overcommit
 *	require.
 *
 *	If a foreign mapping is in the way, the heap allocates its units from
 *	the arena and never frees them.  Such a range is a hole.  The heap
 *	records its holes, because it must not give the kernel advice about
 *	the memory of others.
 *
 *	Address space may be limited, by RLIMIT_AS, or by RLIMIT_MEMLOCK after
 *	mlockall(MCL_FUTURE), which counts reserved pages too.  The heap then
 *	takes small steps: at most a sixteenth of the limit is reserved ahead,
 *	so that thread stacks and other mappings still fit.  It also releases
 *	the free end of its address range (end_release()).
 *
 *	The window is at an address that nothing else uses, below the area of
 *	position-independent programs.  Sanitizers expect memory of the program
 *	there, too.  If the kernel refuses the address (a smaller address space,
 *	valgrind), the kernel chooses the address, and the heap reserves the
 *	whole window at once.
 *
 * Page state
 *	One byte for each unit describes a free unit:
 *	STATE_CLEAN	clean: reads as zeros, has no memory
 *	1 .. 254	dirty; the number is the epoch at which it was freed
 *	STATE_PURGING: a thread is purging the unit
 *	An allocated unit has STATE_CLEAN, too: heap_free() stores the epoch
 *	before it frees the unit to the arena, and heap_alloc() clears the state
 *	after it has allocated the unit from the arena.  A thread that reads an
 *	epoch may therefore set STATE_PURGING and purge the unit.  The unit is
 *	either free, or allocated by a heap_alloc() that has not cleared the
 *	state yet.  In the second case heap_alloc() waits for the end of the
 *	purge before it returns the unit to a caller that could write to it.
 *	This needs no lock, and the only thread that waits for a purge is the
 *	thread that has allocated the unit.
 *
 *	Huge pages
 *	The heap grows by huge pages where the program is likely to fill them
 *	(huge.c).  For other memory it advises the kernel against huge pages,
 *	independently of the default of the system.  After a purge it advises
 *	the kernel against huge pages in all committed memory.
 *
 *	The search order of the arena is enough to prefer dirty units to clean
 *	ones: instant fit examines the latest freed segments first.  The clean
 *	rest of the window is the largest segment and is therefore used last.
 *
 * Locking: heap_lock guards committed_end and reserved_end.  It is held while
 * the kernel reserves and commits memory.  Page states are atomic.
 *
 * Always true: base <= committed_end <= reserved_end <= end of the window.
 */
#include <errno.h>

#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/hooks.h"
#include "vmem/huge.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * Addresses of the window.  341 GiB are between WINDOW_BASE and the lowest
 * address of a position-independent program (0x555555554000): enough for a
 * window of WINDOW_NEAR_MAX and a random offset below WINDOW_RANDOM.  A larger
 * window is at WINDOW_BASE_LARGE.
 */
#define WINDOW_BASE       ((uintptr_t)0x550000000000)
#define WINDOW_NEAR_MAX   ((size_t)256 * GIB)
#define WINDOW_RANDOM     ((size_t)64 * GIB)
#define WINDOW_BASE_LARGE ((uintptr_t)0x300000000000)
#define WINDOW_MAX        ((size_t)16384 * GIB)
#define WINDOW_MIN        (8 * MIB)

/*
 * A step of committed memory is 1/COMMIT_PART of the heap, within COMMIT_MIN
 * and COMMIT_MAX.  With small pages it is at most a huge page, or
 * 1/COMMIT_SMALL_PART of a large heap.
 */
#define COMMIT_PART       8
#define COMMIT_SMALL_PART 64
#define COMMIT_MIN        (1 * MIB)
#define COMMIT_MAX        (64 * MIB)
/* The first reservation without a limit, and the largest step under one. */
#define RESERVE_MIN       (64 * MIB)

/* If address space is limited, 1/LIMIT_PART of the limit is reserved ahead. */
#define LIMIT_PART        16
/*
 * The window is at most LIMIT_GROWTH times the soft limit, rounded up to a
 * power of two, because the program may raise the limit later.  The tables for
 * such a window are at most 1/64 of the limit.
 */
#define LIMIT_GROWTH      32
/*
 * The window is at most RAM_FACTOR times the memory of the machine, and at most
 * HARD_LIMIT_FACTOR times the hard limit of address space.
 */
#define RAM_FACTOR        8
#define HARD_LIMIT_FACTOR 2
/* Bytes of address space left to the program when the heap starts. */
#define PROGRAM_BYTES     (128 * MIB)

#define EPOCH_SHIFT   27 /* an epoch is 2^27 ns, 134 ms */
#define EPOCHS        254
#define STATE_CLEAN   0 /* or allocated */
#define STATE_PURGING 255
#define PURGE_UNITS   64 /* most units for one call of os_purge() */

/*
 * Attempts to take a hole, FOREIGN_WAIT_NS apart, before an allocation fails.
 */
#define FOREIGN_TRIES   100
#define FOREIGN_WAIT_NS 100000

/* A thread that waits for a purge looks again after this time. */
#define PURGE_WAIT_NS 1000000

/* A hole: foreign mappings in [from, to), which the heap never allocates. */
struct foreign {
	uintptr_t from;
	uintptr_t to;
	struct foreign *next;
};

struct heap_window heap_window;

static struct foreign *foreign_ranges; /* [heap_lock] by descending address */
static size_t nforeign;                /* [atomic] units in holes */
static vmem_t *heap_arena;
static struct lock heap_lock = LOCK_INITIALIZER(LOCK_HEAP);
static uintptr_t committed_end; /* [heap_lock] read atomically */
static uintptr_t reserved_end;  /* [heap_lock] */
static uintptr_t states_end;    /* [heap_lock] end of committed states */
static uint8_t *states;         /* [atomic] state of each unit */
static size_t ndirty;           /* [atomic] units with an epoch */
static size_t nallocated;       /* [atomic] units allocated, cumulative */
static size_t
    nallocated_clean;        /* [atomic] units of nallocated that were clean */
static uint32_t purge_word;  /* [atomic] counts purges; futex word */
static size_t address_space; /* see heap_address_space() */
static size_t reserve_ahead; /* bytes reserved ahead; 0: no limit is near */
static unsigned ngrowing;    /* [atomic] threads inside heap_grow() */
static int policy;           /* see heap_set_policy() */
static bool huge_used;       /* [heap_lock] read atomically */

/* Bytes that the heap reserves when it starts. */
static size_t
reserve_first(void)
{
	return reserve_ahead != 0 ? reserve_ahead : RESERVE_MIN;
}

/* Place a window of this size at base; false if base is not free. */
static bool
window_reserve_at(uintptr_t base, size_t bytes)
{
	size_t step = reserve_first();

	if (!os_reserve_at((void *)base, step))
		return false;
	heap_window.base = base;
	heap_window.units = bytes >> HEAP_UNIT_SHIFT;
	reserved_end = base + step;
	return true;
}

/*
 * Reserve a window of at most this size, as large as the kernel allows, at an
 * address that the kernel chooses.
 */
static bool
window_reserve_anywhere(size_t bytes)
{
	if (bytes > address_space / 2)
		bytes = align_down(address_space / 2, HEAP_UNIT);
	for (; bytes >= WINDOW_MIN; bytes /= 2) {
		uintptr_t at = (uintptr_t)os_reserve(NULL, bytes);

		if (at == 0)
			continue;
		heap_window.base = align_up(at, HEAP_UNIT);
		heap_window.units =
		    (at + bytes - heap_window.base) >> HEAP_UNIT_SHIFT;
		reserved_end =
		    heap_window.base + (heap_window.units << HEAP_UNIT_SHIFT);
		return true;
	}
	return false;
}

static size_t
min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Size of the window for a soft limit of address space, a power of two.  A
 * process can hardly use more than eight times the memory of the machine, and
 * cannot use more than its hard limit.
 */
static size_t
window_bytes(size_t limit)
{
	size_t bytes = min_size(RAM_FACTOR * os_ram(), WINDOW_MAX);

	bytes = min_size(bytes, min_size(limit, WINDOW_MAX) * LIMIT_GROWTH);
	bytes = min_size(bytes,
	    min_size(os_limit_as_hard(), WINDOW_MAX) * HARD_LIMIT_FACTOR);
	if (bytes < GIB)
		bytes = GIB;
	return (size_t)1 << (highbit(bytes - 1) + 1);
}

/* Bytes to reserve ahead for a limit of address space. */
static size_t
reserve_ahead_for(size_t limit)
{
	size_t step = align_down(limit / LIMIT_PART, HEAP_UNIT);

	if (step < COMMIT_MIN)
		return COMMIT_MIN;
	return min_size(step, RESERVE_MIN);
}

/*
 * Find out by trial reservations how much address space the kernel grants, at
 * most want bytes.  Returns SIZE_MAX if it grants all of them.
 */
static size_t
address_space_probe(size_t want)
{
	for (size_t bytes = want; bytes >= HEAP_UNIT; bytes -= bytes / 8) {
		void *at = os_reserve(NULL, bytes);

		if (at == NULL)
			continue;
		os_unmap(at, bytes);
		return bytes == want ? SIZE_MAX : bytes;
	}
	return 0;
}

static bool
window_choose(void)
{
	size_t limit = os_limit_as();
	size_t bytes = window_bytes(limit);
	size_t tables = (bytes >> HEAP_UNIT_SHIFT) * HEAP_UNIT_TABLES;
	uintptr_t shuffle = align_down(os_random() % WINDOW_RANDOM, HEAP_UNIT);

	reserve_ahead = limit == SIZE_MAX ? 0 : reserve_ahead_for(limit);
	address_space =
	    address_space_probe(2 * (reserve_first() + tables) + PROGRAM_BYTES);
	if (address_space != SIZE_MAX) {
		/*
		 * The limit that refused the reservation is unknown, and it may
		 * be a hard limit.
		 */
		reserve_ahead = reserve_ahead_for(address_space);
		bytes = min_size(bytes, window_bytes(address_space));
	}
	if (bytes <= WINDOW_NEAR_MAX &&
	    window_reserve_at(WINDOW_BASE + shuffle, bytes))
		return true;
	if (window_reserve_at(WINDOW_BASE_LARGE + shuffle, bytes))
		return true;
	return window_reserve_anywhere(bytes);
}

size_t
heap_address_space(void)
{
	return address_space;
}

bool
heap_start(void)
{
	/* Keep the window that an earlier call found before it failed. */
	if (heap_window.units == 0 && !window_choose())
		return false;
	committed_end = heap_window.base;
	if (states == NULL)
		states = os_reserve_zeros(
		    align_up(heap_window.units, os_page_size()));
	if (states == NULL)
		return false;
	heap_arena = vmem_create("umem_heap", (void *)heap_window.base,
	    heap_window.units << HEAP_UNIT_SHIFT, HEAP_UNIT, NULL, NULL, NULL,
	    0, VM_NOSLEEP);
	return heap_arena != NULL;
}

void
heap_set_policy(int policy_flag)
{
	policy = policy_flag;
}

/* heap_forbid_huge() for each part of the heap between holes, from above. */
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
	if (likely(!__atomic_load_n(&huge_used, __ATOMIC_RELAXED)))
		return;
	lock_take(&heap_lock);
	forbid_huge_locked();
	__atomic_store_n(&huge_used, false, __ATOMIC_RELAXED);
	lock_release(&heap_lock);
}

/* Are the bounds of the heap in order, and the foreign ranges below its end? */
static inline bool
heap_check_locked(void)
{
	uintptr_t end = reserved_end;
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

/* Commit the states of all units below end. */
static bool
states_commit_locked(uintptr_t end)
{
	lock_assert_held(&heap_lock);

	size_t page = os_page_size();
	uintptr_t want = align_up(
	    (uintptr_t)states + ((end - heap_window.base) >> HEAP_UNIT_SHIFT),
	    page);
	uintptr_t from = states_end == 0 ? (uintptr_t)states : states_end;

	if (want <= from)
		return true;
	if (!os_commit((void *)from, want - from))
		return false;
	states_end = want;
	return true;
}

/* Result of committing memory for a range. */
enum commit_result {
	COMMITTED,       /* committed */
	FOREIGN_MAPPING, /* a foreign mapping is at reserved_end */
	NO_MEMORY        /* the kernel refuses */
};

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
	if (reserve_ahead != 0)
		step = step / 8 < reserve_ahead ? step / 8 : reserve_ahead;
	if (step < need)
		step = reserve_ahead != 0 ? need : align_up(need, RESERVE_MIN);
	step = align_down(min_size(step, window_end - reserved_end), HEAP_UNIT);
	if (step > need && os_reserve_at((void *)reserved_end, step)) {
		reserved_end += step;
		return COMMITTED;
	}
	if (os_reserve_at((void *)reserved_end, need)) {
		reserved_end += need;
		return COMMITTED;
	}
	/* Is there too little address space, or a mapping in the way? */
	void *probe = os_reserve(NULL, need);
	if (probe == NULL)
		return NO_MEMORY;
	os_unmap(probe, need);
	return reserve_pieces_locked(end) ? COMMITTED : FOREIGN_MAPPING;
}

/*
 * Round goal up to a whole huge page, as far as address space is reserved.
 * This avoids a partly committed huge page.
 */
static uintptr_t
huge_goal_locked(uintptr_t goal)
{
	lock_assert_held(&heap_lock);

	uintptr_t whole = align_up(goal, HUGE_PAGE);

	return whole <= reserved_end ? whole : goal;
}

/* Commit memory up to end, with or without huge pages. */
static bool
commit_to_locked(uintptr_t end, bool huge)
{
	lock_assert_held(&heap_lock);
	umem_assert(((end - heap_window.base) & (HEAP_UNIT - 1)) == 0);
	if (!states_commit_locked(end) ||
	    !os_commit((void *)committed_end, end - committed_end))
		return false;
	os_huge((void *)committed_end, end - committed_end, huge);
	if (huge)
		__atomic_store_n(&huge_used, true, __ATOMIC_RELAXED);
	os_name((void *)committed_end, end - committed_end, "umem heap");
	huge_growth_record(committed_end, end, huge);
	/* Release: pairs with the load in heap_commit(). */
	__atomic_store_n(&committed_end, end, __ATOMIC_RELEASE);
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
	if (step < COMMIT_MIN)
		step = COMMIT_MIN;
	if (step > most)
		step = most;
	step += committed_end;
	if (step < end)
		step = end;
	return step < reserved_end ? step : reserved_end;
}

/* Commit up to goal: runs of huge pages, and probes with small pages. */
static bool
commit_huge_locked(uintptr_t goal)
{
	lock_assert_held(&heap_lock);
	while (committed_end < goal) {
		bool probe;
		size_t most = huge_growth_next(&probe);
		uintptr_t end =
		    goal - committed_end < most ? goal : committed_end + most;

		if (!commit_to_locked(huge_goal_locked(end), !probe))
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
heap_commit_locked(uintptr_t end, size_t block_bytes)
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
	huge = huge_growth_max(committed_end - heap_window.base, block_bytes);
	goal = commit_goal_locked(end, huge != 0);
	if (commit_growth_locked(end, goal, huge))
		return COMMITTED;
	/* A limit of the process may be near: commit no more than needed. */
	if (committed_end >= end ||
	    (goal > end && commit_to_locked(end, false)))
		return COMMITTED;
	return NO_MEMORY;
}

/* Commit all memory below end, for a block of block_bytes that ends there. */
static enum commit_result
heap_commit(uintptr_t end, size_t block_bytes)
{
	enum commit_result got;

	/* Sequentially consistent: see end_release(). */
	if (likely(end <= __atomic_load_n(&committed_end, __ATOMIC_SEQ_CST)))
		return COMMITTED;
	lock_take(&heap_lock);
	got = heap_commit_locked(end, block_bytes);
	umem_assert(heap_check_locked());
	lock_release(&heap_lock);
	return got;
}

/*
 * Record the unit at address at as a hole; it is above all other holes.
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
	__atomic_add_fetch(&nforeign, 1, __ATOMIC_RELAXED);
	return true;
}

/*
 * Take the unit at reserved_end, where a foreign mapping is, out of the arena.
 * The caller has freed its block, so the unit is free in the arena unless
 * another thread has just allocated it.  Returns false if the unit is not free
 * or the memory below it cannot be committed.
 */
static bool
foreign_take(void)
{
	bool taken = false;

	lock_take(&heap_lock);
	uintptr_t at = reserved_end;
	lock_release(&heap_lock);

	if (vmem_xalloc(heap_arena, HEAP_UNIT, HEAP_UNIT, 0, 0, (void *)at,
		(void *)(at + HEAP_UNIT), VM_NOSLEEP) == NULL)
		return false;
	lock_take(&heap_lock);
	/* Commit all memory below the hole before committed_end moves on. */
	if (reserved_end == at && commit_to_locked(at, false) &&
	    foreign_record_locked(at)) {
		reserved_end = at + HEAP_UNIT;
		__atomic_store_n(
		    &committed_end, reserved_end, __ATOMIC_RELEASE);
		taken = true;
	}
	umem_assert(heap_check_locked());
	lock_release(&heap_lock);
	if (!taken)
		vmem_xfree(heap_arena, (void *)at, HEAP_UNIT);
	return taken;
}

/* Wait a moment for the thread that has allocated the unit of a hole. */
static void
foreign_wait(uint32_t *nfailed)
{
	++*nfailed;
	os_futex_wait(nfailed, *nfailed, FOREIGN_WAIT_NS);
}

static size_t
unit_index(const void *at)
{
	return ((uintptr_t)at - heap_window.base) >> HEAP_UNIT_SHIFT;
}

/* Clear the state of an allocated unit; true if the unit was clean. */
static bool
unit_state_clear(uint8_t *state)
{
	uint8_t was = __atomic_load_n(state, __ATOMIC_ACQUIRE);

	if (likely(was == STATE_CLEAN))
		return true;
	for (;;) {
		if (was == STATE_PURGING) {
			uint32_t word =
			    __atomic_load_n(&purge_word, __ATOMIC_ACQUIRE);
			if (__atomic_load_n(state, __ATOMIC_ACQUIRE) ==
			    STATE_PURGING)
				os_futex_wait(&purge_word, word, PURGE_WAIT_NS);
			was = __atomic_load_n(state, __ATOMIC_ACQUIRE);
		} else if (was == STATE_CLEAN) {
			return true;
		} else if (__atomic_compare_exchange_n(state, &was, 0, false,
			       __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
			return false;
		}
	}
}

/* Clear the states of an allocated block; true if all units were clean. */
static bool
block_states_clear(void *at, size_t bytes)
{
	size_t first = unit_index(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;
	size_t nwere = 0;

	__atomic_add_fetch(&nallocated, n, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		nwere += !unit_state_clear(&states[first + i]);
	if (nwere != 0)
		__atomic_sub_fetch(&ndirty, nwere, __ATOMIC_RELAXED);
	if (nwere != n)
		__atomic_add_fetch(
		    &nallocated_clean, n - nwere, __ATOMIC_RELAXED);
	return nwere == 0;
}

static uint8_t
epoch_now(void)
{
	return (uint8_t)((os_now_ns() >> EPOCH_SHIFT) % EPOCHS + 1);
}

/* Are all units in [from, to) clean? */
static bool
units_are_clean(uintptr_t from, uintptr_t to)
{
	size_t end = unit_index((void *)to);

	for (size_t i = unit_index((void *)from); i < end; i++)
		if (__atomic_load_n(&states[i], __ATOMIC_ACQUIRE) != 0)
			return false;
	return true;
}

/* Mark the units of a block, which is about to be freed, as dirty. */
static void
block_states_mark(void *at, size_t bytes)
{
	size_t first = unit_index(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;
	uint8_t epoch = epoch_now();

	umem_assert((((uintptr_t)at | bytes) & (HEAP_UNIT - 1)) == 0);
	umem_assert((uintptr_t)at >= heap_window.base);
	umem_assert((uintptr_t)at + bytes <=
		    __atomic_load_n(&committed_end, __ATOMIC_RELAXED));
	umem_assert(units_are_clean((uintptr_t)at, (uintptr_t)at + bytes));
	__atomic_add_fetch(&ndirty, n, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		__atomic_store_n(&states[first + i], epoch, __ATOMIC_RELEASE);
}

/* Alignment of a block: it starts phase bytes above a multiple of align. */
struct placement {
	size_t align;
	size_t phase;
};

static void *
units_alloc(size_t bytes, struct placement placement)
{
	int flags = VM_NOSLEEP | policy;

	if (placement.align <= HEAP_UNIT)
		return vmem_alloc(heap_arena, bytes, flags);
	return vmem_xalloc(heap_arena, bytes, placement.align, placement.phase,
	    0, NULL, NULL, flags);
}

static void
units_free(void *at, size_t bytes, struct placement placement)
{
	if (placement.align <= HEAP_UNIT)
		vmem_free(heap_arena, at, bytes);
	else
		vmem_xfree(heap_arena, at, bytes);
}

static void *
block_alloc(size_t bytes, struct placement placement, bool *zeroed)
{
	uint32_t nfailed = 0;

	while (nfailed < FOREIGN_TRIES) {
		void *at = units_alloc(bytes, placement);

		if (at == NULL)
			return NULL;
		enum commit_result got =
		    heap_commit((uintptr_t)at + bytes, bytes);
		if (likely(got == COMMITTED)) {
			*zeroed = block_states_clear(at, bytes);
			return at;
		}
		units_free(at, bytes, placement);
		if (got == NO_MEMORY)
			return NULL;
		if (!foreign_take())
			foreign_wait(&nfailed);
	}
	return NULL;
}

void *
heap_alloc(size_t bytes, size_t align, bool *zeroed)
{
	return block_alloc(bytes, (struct placement){align, 0}, zeroed);
}

void *
heap_alloc_same_offset(size_t bytes, const void *like, bool *zeroed)
{
	struct placement placement = {
	    HUGE_PAGE, (uintptr_t)like & (HUGE_PAGE - 1)};
	void *at = block_alloc(bytes, placement, zeroed);

	return at != NULL ? at : heap_alloc(bytes, HEAP_UNIT, zeroed);
}

void
heap_free(void *at, size_t bytes)
{
	block_states_mark(at, bytes);
	vmem_xfree(heap_arena, at, bytes);
}

bool
heap_grow(void *at, size_t oldbytes, size_t newbytes, bool *zeroed)
{
	size_t start = (uintptr_t)at - heap_window.base;
	char *end = (char *)at + oldbytes;
	bool grown;

	/*
	 * Commit the memory first.  Otherwise a failed commit would require
	 * shrinking the segment again, which can fail if there is no tag.
	 */
	__atomic_add_fetch(&ngrowing, 1, __ATOMIC_SEQ_CST);
	grown = newbytes <= (heap_window.units << HEAP_UNIT_SHIFT) - start &&
		heap_commit((uintptr_t)at + newbytes, newbytes) == COMMITTED &&
		vmem_grow(heap_arena, at, oldbytes, newbytes);
	__atomic_sub_fetch(&ngrowing, 1, __ATOMIC_SEQ_CST);
	if (grown)
		*zeroed = block_states_clear(end, newbytes - oldbytes);
	return grown;
}

bool
heap_shrink(void *at, size_t oldbytes, size_t newbytes)
{
	char *end = (char *)at + newbytes;

	block_states_mark(end, oldbytes - newbytes);
	if (vmem_shrink(heap_arena, at, oldbytes, newbytes))
		return true;
	block_states_clear(end, oldbytes - newbytes);
	return false;
}

/*
 * Mark consecutive units from first on as STATE_PURGING, up to the first unit
 * that is not dirty or not old enough.  Returns their number and stores their
 * epochs in was[].  now is the current epoch, age is in epochs.
 */
static size_t
purge_mark(size_t first, size_t end, uint8_t now, unsigned age, uint8_t *was)
{
	size_t n = 0;

	for (; n < PURGE_UNITS && first + n < end; n++) {
		uint8_t *state = &states[first + n];
		uint8_t epoch = __atomic_load_n(state, __ATOMIC_RELAXED);

		if (epoch == STATE_CLEAN || epoch == STATE_PURGING ||
		    (unsigned)(now + EPOCHS - epoch) % EPOCHS < age ||
		    !__atomic_compare_exchange_n(state, &epoch, STATE_PURGING,
			false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		was[n] = epoch;
	}
	return n;
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
	if (committed_end != top || !units_are_clean(from, top))
		return false;
	__atomic_store_n(&committed_end, from, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ngrowing, __ATOMIC_SEQ_CST) != 0 ||
	    !os_unmap((void *)from, reserved_end - from)) {
		__atomic_store_n(&committed_end, top, __ATOMIC_SEQ_CST);
		return false;
	}
	reserved_end = from;
	return true;
}

/*
 * Under a limit of address space, release the free and clean end of the heap to
 * the kernel, so that thread stacks and other mappings can use the addresses.
 *
 * No block loses its memory.  This thread first allocates the range from the
 * arena, so that no other thread has a block there.  A thread that allocates a
 * block there later reads the lower committed_end, because the arena's lock
 * orders the store before that allocation.  Its heap_commit() therefore commits
 * the memory again.
 *
 * Only heap_grow() reads committed_end before it has allocated its range.  It
 * increments ngrowing before that read.  end_unmap_locked() reads ngrowing
 * after it has lowered committed_end.  All four accesses are sequentially
 * consistent.  Therefore either heap_grow() reads the lower committed_end and
 * waits for heap_lock, or end_unmap_locked() reads the count and unmaps
 * nothing.
 */
static void
end_release(void)
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
		for (size_t bytes = top - floor;
		     bytes >= reserve_ahead && at == NULL;
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
heap_purge(uint64_t age_ns, size_t limit)
{
	uintptr_t end_now = __atomic_load_n(&committed_end, __ATOMIC_ACQUIRE);
	size_t end = (end_now - heap_window.base) >> HEAP_UNIT_SHIFT;
	uint8_t now = epoch_now();
	uint64_t epochs = age_ns >> EPOCH_SHIFT;
	unsigned age = epochs < EPOCHS / 2 ? (unsigned)epochs : EPOCHS / 2;
	uint8_t was[PURGE_UNITS];
	size_t purged = 0;

	/* Otherwise each range would be marked and restored in vain. */
	if (!os_may_purge())
		return 0;
	for (size_t i = 0; i < end && limit - purged >= HEAP_UNIT; i++) {
		size_t most = (limit - purged) >> HEAP_UNIT_SHIFT;

		/* Skip eight units at once if all are clean or in use. */
		if ((i & 7) == 0 && i + 8 <= end &&
		    __atomic_load_n((uint64_t *)(void *)(states + i),
			__ATOMIC_RELAXED) == 0) {
			i += 7;
			continue;
		}
		size_t n = purge_mark(
		    i, most < end - i ? i + most : end, now, age, was);
		if (n == 0)
			continue;
		bool done =
		    os_purge((char *)heap_window.base + (i << HEAP_UNIT_SHIFT),
			n << HEAP_UNIT_SHIFT);
		for (size_t j = 0; j < n; j++)
			__atomic_store_n(&states[i + j],
			    done ? STATE_CLEAN : was[j], __ATOMIC_RELEASE);
		__atomic_add_fetch(&purge_word, 1, __ATOMIC_RELEASE);
		os_futex_wake(&purge_word, INT32_MAX);
		if (done) {
			__atomic_sub_fetch(&ndirty, n, __ATOMIC_RELAXED);
			purged += n << HEAP_UNIT_SHIFT;
		} else if (!os_may_purge()) {
			break;
		}
		i += n - 1;
	}
	if (purged != 0)
		heap_forbid_huge();
	if (unlikely(reserve_ahead != 0) && (purged != 0 || age_ns == 0))
		end_release();
	return purged;
}

size_t
heap_dirty(void)
{
	return __atomic_load_n(&ndirty, __ATOMIC_RELAXED) << HEAP_UNIT_SHIFT;
}

size_t
heap_used(void)
{
	return vmem_size(heap_arena, VMEM_ALLOC);
}

size_t
heap_foreign(void)
{
	return __atomic_load_n(&nforeign, __ATOMIC_RELAXED) << HEAP_UNIT_SHIFT;
}

size_t
heap_allocated_total(void)
{
	return __atomic_load_n(&nallocated, __ATOMIC_RELAXED)
	       << HEAP_UNIT_SHIFT;
}

size_t
heap_allocated_clean(void)
{
	return __atomic_load_n(&nallocated_clean, __ATOMIC_RELAXED)
	       << HEAP_UNIT_SHIFT;
}

size_t
heap_committed(void)
{
	return __atomic_load_n(&committed_end, __ATOMIC_ACQUIRE) -
	       heap_window.base;
}

void
heap_lock_for_fork(void)
{
	lock_take_for_fork(&heap_lock);
}

void
heap_unlock_for_fork(void)
{
	lock_release_for_fork(&heap_lock);
}

void
heap_after_fork(void)
{
	size_t end = (committed_end - heap_window.base) >> HEAP_UNIT_SHIFT;
	uint8_t epoch = epoch_now();
	size_t n = 0;

	ngrowing = 0;
	for (size_t i = 0; i < end; i++) {
		/*
		 * The purging thread and the threads that wait for it do not
		 * exist in the child.
		 */
		if (states[i] == STATE_PURGING)
			states[i] = epoch;
		n += states[i] != STATE_CLEAN;
	}
	ndirty = n;
}

/* The import function of heap_public_arena(): whole units of the heap. */
static void *
program_import(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	size_t bytes = align_up(*size, HEAP_UNIT);
	bool zeroed;

	(void)source;
	(void)vmflag;
	if (bytes < *size)
		return NULL;
	*size = bytes;
	return heap_alloc(bytes, align, &zeroed);
}

void
heap_arena_release(vmem_t *source, void *addr, size_t size)
{
	(void)source;
	heap_free(addr, size);
}

vmem_t *
heap_public_arena(void)
{
	static vmem_t *arena; /* [atomic] */
	vmem_t *published = __atomic_load_n(&arena, __ATOMIC_ACQUIRE), *created;

	if (published != NULL)
		return published;
	created = vmem_xcreate("umem_program", NULL, 0, os_page_size(),
	    program_import, heap_arena_release, heap_arena, 0, VM_NOSLEEP);
	if (created == NULL)
		return NULL;
	published = publish_once(&arena, created);
	if (published != created)
		vmem_destroy(created);
	return published;
}

DESCRIBE(DESCRIBED_HEAP);
