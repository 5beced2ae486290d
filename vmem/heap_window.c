/*
 * heap_window.c - where the heap is: the window, and limits of address space
 *
 * The window is at an address that nothing else uses, below the area of
 * position-independent programs.  Sanitizers expect memory of the program
 * there, too.  If the kernel refuses the address (a smaller address space,
 * valgrind), the kernel chooses the address, and the heap reserves the whole
 * window at once.
 *
 * Address space may be limited, by RLIMIT_AS, or by RLIMIT_MEMLOCK after
 * mlockall(MCL_FUTURE), which counts reserved pages too.  The heap then takes
 * small steps: at most a sixteenth of the limit is reserved ahead
 * (heap_reserve_ahead), so that thread stacks and other mappings still fit.
 *
 * Locking: none.  All this runs once, at start, in one thread.
 */
#include <sys/resource.h>

#include "vmem/heap_inner.h"
#include "vmem/os.h"

/*
 * Addresses of the window.  341 GiB are between WINDOW_BASE and the lowest
 * address of a position-independent program (0x555555554000): enough for a
 * window of WINDOW_NEAR_MAX and a random offset below WINDOW_RANDOM.  A larger
 * window is at WINDOW_BASE_LARGE.  The tables of WINDOW_MAX take 4.25 GiB of
 * addresses; WINDOW_MIN holds 128 slabs.
 */
#define WINDOW_BASE       ((uintptr_t)0x550000000000)
#define WINDOW_NEAR_MAX   ((size_t)256 * GIB)
#define WINDOW_RANDOM     ((size_t)64 * GIB)
#define WINDOW_BASE_LARGE ((uintptr_t)0x300000000000)
#define WINDOW_MAX        ((size_t)16384 * GIB)
#define WINDOW_MIN        (8 * MIB)

/* If address space is limited, 1/LIMIT_PART of the limit is reserved ahead. */
#define LIMIT_PART    16
/*
 * The window is at most LIMIT_GROWTH times the soft resource limit, rounded up
 * to a power of two, because the program may raise the limit later.  The tables
 * for such a window are at most 1/60 of the limit.
 */
#define LIMIT_GROWTH  32
/*
 * The window is at most RAM_FACTOR times the memory of the machine.  Only a
 * process that swaps, or whose heap is fragmented eightfold, could use more
 * addresses.
 */
#define RAM_FACTOR    8
/* Bytes of address space left to the program when the heap starts. */
#define PROGRAM_BYTES (128 * MIB)

struct heap_window heap_window;
size_t heap_reserve_ahead, heap_address_space;

/* Bytes that the heap reserves when it starts. */
static size_t
reserve_first(void)
{
	return heap_reserve_ahead != 0 ? heap_reserve_ahead : RESERVE_MIN;
}

/*
 * Place a window of this size at base.  Returns the end of the reserved
 * addresses, or 0 if base is not free.
 */
static uintptr_t
window_reserve_at(uintptr_t base, size_t bytes)
{
	size_t step = reserve_first();

	if (!os_reserve_at((void *)base, step))
		return 0;
	heap_window.base = base;
	heap_window.units = bytes >> HEAP_UNIT_SHIFT;
	return base + step;
}

/*
 * Reserve a window of at most this size, as large as the kernel allows, at an
 * address that the kernel chooses.  Returns its end, or 0.
 */
static uintptr_t
window_reserve_anywhere(size_t bytes)
{
	if (bytes > heap_address_space / 2)
		bytes = align_down(heap_address_space / 2, HEAP_UNIT);
	for (; bytes >= WINDOW_MIN; bytes /= 2) {
		uintptr_t at = (uintptr_t)os_reserve(NULL, bytes);

		if (at == 0)
			continue;
		heap_window.base = align_up(at, HEAP_UNIT);
		heap_window.units =
		    (at + bytes - heap_window.base) >> HEAP_UNIT_SHIFT;
		return heap_window.base +
		       (heap_window.units << HEAP_UNIT_SHIFT);
	}
	return 0;
}

/* Size of the window for a limit of address space, a power of two. */
static size_t
window_bytes(size_t limit)
{
	size_t bytes = size_min(RAM_FACTOR * os_ram(), WINDOW_MAX);

	bytes = size_min(bytes, size_min(limit, WINDOW_MAX) * LIMIT_GROWTH);
	return (size_t)1 << (highbit(size_max(bytes, GIB) - 1) + 1);
}

/* Bytes to reserve ahead for a limit of address space. */
static size_t
reserve_ahead_for(size_t limit)
{
	size_t step = align_down(limit / LIMIT_PART, HEAP_UNIT);

	return size_max(size_min(step, RESERVE_MIN), COMMIT_MIN);
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

uintptr_t
heap_window_choose(void)
{
	size_t limit = os_limit(RLIMIT_AS);
	size_t bytes = window_bytes(limit);
	size_t tables = (bytes >> HEAP_UNIT_SHIFT) * HEAP_UNIT_TABLES;
	uintptr_t shuffle = align_down(os_random() % WINDOW_RANDOM, HEAP_UNIT);
	uintptr_t end = 0;

	heap_reserve_ahead = limit == SIZE_MAX ? 0 : reserve_ahead_for(limit);
	heap_address_space =
	    address_space_probe(2 * (reserve_first() + tables) + PROGRAM_BYTES);
	if (heap_address_space != SIZE_MAX) {
		/*
		 * The limit that refused the reservation is unknown, and it may
		 * be a hard limit.
		 */
		heap_reserve_ahead = reserve_ahead_for(heap_address_space);
		bytes = size_min(bytes, window_bytes(heap_address_space));
	}
	if (bytes <= WINDOW_NEAR_MAX)
		end = window_reserve_at(WINDOW_BASE + shuffle, bytes);
	if (end == 0)
		end = window_reserve_at(WINDOW_BASE_LARGE + shuffle, bytes);
	return end != 0 ? end : window_reserve_anywhere(bytes);
}
