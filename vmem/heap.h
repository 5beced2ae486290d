/* heap.h - the heap: the root arena of memory; see heap.c */
#ifndef VMEM_HEAP_H
#define VMEM_HEAP_H

#include "vmem/lock.h"
#include "vmem/vmem.h"
#include "vmem/base.h"

/*
 * A unit of the heap, in bytes: the granule of allocation.  It is a multiple of
 * every known page size; aarch64 has pages of 64 KiB.  The tables of a unit
 * (HEAP_UNIT_TABLES) are 1/3640 of it.
 */
#define HEAP_UNIT_SHIFT 16
#define HEAP_UNIT       ((size_t)1 << HEAP_UNIT_SHIFT)

/* The heap window: the addresses that the heap may use, fixed at start. */
struct heap_window {
	uintptr_t base; /* multiple of HEAP_UNIT */
	size_t units;
};

extern hidden struct heap_window heap_window;

/* Most bytes of tables in all layers for one unit. */
#define HEAP_UNIT_TABLES 18

/* Choose the window and create the heap; false if the kernel refuses. */
bool heap_start(void);

/* Called once at start, after node_start(): create the arenas of nodes. */
void heap_nodes_start(void);

/*
 * Bytes of address space that the kernel would have granted to this process
 * when the heap started, or SIZE_MAX if they are more than the library needs at
 * start.
 */
extern hidden size_t heap_address_space;

/*
 * Allocate memory.  bytes is a multiple of HEAP_UNIT.  align is a power of two;
 * every block is aligned to HEAP_UNIT at least.  *zeroed becomes true if all
 * bytes are zero, because none was written since the kernel supplied it.
 * Returns NULL if there is no memory.
 */
void *heap_alloc(size_t bytes, size_t align, bool *zeroed);

/*
 * Allocate as heap_alloc() does, if possible at the same offset from a
 * huge-page boundary as the block at address like.  Whole huge pages can then
 * be moved between the two blocks.
 */
void *heap_alloc_same_offset(size_t bytes, const void *like, bool *zeroed);

/* Free a block; never fails.  heap_purge() purges its pages later. */
void heap_free(void *at, size_t bytes);

/*
 * Grow a block in place.  *zeroed is that of heap_alloc(), for the bytes added.
 * Returns false, and changes nothing, if the units behind the block are not
 * free or there is no memory.
 */
bool heap_grow(void *at, size_t oldbytes, size_t newbytes, bool *zeroed);

/* Free the tail of a block; false if there is no memory for a tag. */
bool heap_shrink(void *at, size_t oldbytes, size_t newbytes);

/*
 * Purge: release to the kernel the pages that have been free for age_ns
 * nanoseconds, at most limit bytes of them.  Returns the number of bytes
 * purged.  The caller itself releases the memory of its tables over these pages
 * (os_reserve_zeros()).
 */
size_t heap_purge(uint64_t age_ns, size_t limit);

/* Bytes that are dirty: free and not yet purged. */
size_t heap_dirty(void);

/* Allocated bytes, including foreign mappings inside the heap. */
size_t heap_used(void);

/* Bytes of foreign mappings inside the heap. */
size_t heap_foreign(void);

/*
 * Bytes from the start of the heap to the end of its committed memory, purged
 * pages and foreign mappings included.
 */
size_t heap_committed(void);

/* Cumulative bytes allocated, modulo SIZE_MAX + 1. */
size_t heap_allocated_total(void);

/*
 * Cumulative bytes allocated that had no memory at that time, because they were
 * never used before or had been purged: modulo SIZE_MAX + 1.
 */
size_t heap_allocated_clean(void);

/*
 * The arena from which arenas of the program import memory.  Its segments are
 * readable and writable.  Returns NULL if there is no memory.
 */
vmem_t *heap_public_arena(void);

/*
 * The release function of heap_public_arena(); see
 * vmem_release_calls_program().
 */
void heap_arena_release(vmem_t *source, void *addr, size_t size);

/* Guards the committed memory; for this module and the atfork handlers. */
extern hidden struct lock heap_lock;

/* In the child, with the lock held: end the purges of other threads. */
void heap_after_fork(void);

/*
 * Advise the kernel against huge pages in all committed memory.  Called after a
 * purge.  Otherwise the kernel would allocate a whole huge page again when the
 * program touches one page of it.
 */
void heap_forbid_huge(void);

/*
 * A release at a limit frees this part of the limit more than necessary, so
 * that a heap at its limit does not release for each request.
 */
#define HEAP_SPARE_PART 16

/*
 * The limits of the heap's memory in bytes; 0 means no limit.  UMEM_OPTIONS
 * sets them, and they may change at any time.  The heap itself refuses requests
 * beyond the hard limit, which is on heap_held(); see heap_limit.c.
 */
struct heap_limits {
	size_t soft;  /* [atomic] umem/upkeep/soft_limit.c */
	size_t hard;  /* [atomic] */
	size_t nsoft; /* [atomic] releases because of the soft limit */
	size_t nhard; /* [atomic] failed requests, see heap_limit_blame() */
};

extern hidden struct heap_limits heap_limits;

/*
 * Bytes of allocated units, without foreign mappings and unused pages of
 * samples, and of dirty units.
 */
size_t heap_held(void);

/* Can the heap hold bytes more within the hard limit, without dirty units? */
bool heap_limit_has_room(size_t bytes);

/*
 * Purge dirty units until the heap is within the hard limit.  Returns false if
 * it is not; then the caller frees the block that it has just allocated.
 */
bool heap_limit_keep(void);

/*
 * Called once for each request of the program that has failed after reclaim.
 * bytes is the heap memory that it needed.  Counts the request in nhard if the
 * hard limit has no room for so much.
 */
void heap_limit_blame(size_t bytes);

/* Set the policy: VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT, or 0 (instant fit). */
void heap_set_policy(int policy_flag);

#endif
