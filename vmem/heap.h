/* heap.h - the root arena of memory; see heap.c */
#ifndef VMEM_HEAP_H
#define VMEM_HEAP_H

#include "vmem/vmem.h"
#include "vmem/base.h"

/* What memory is handed out by; a multiple of every known page size. */
#define HEAP_UNIT_SHIFT 16
#define HEAP_UNIT       ((size_t)1 << HEAP_UNIT_SHIFT)

/* Where the heap may lie: fixed at start.  Tables are sized by it. */
struct heap_slot {
	uintptr_t base; /* multiple of HEAP_UNIT */
	size_t units;
};

extern struct heap_slot heap_slot;

/* Bytes of tables in all layers for one unit, at most. */
#define HEAP_UNIT_TABLES 16

/* False: the kernel gives no address space. */
bool heap_start(void);

/*
 * Bytes of address space that the kernel would give to this process when the
 * heap started; SIZE_MAX if that is more than the library takes at start.
 */
size_t heap_room(void);

/*
 * bytes is a multiple of HEAP_UNIT, align a power of two (HEAP_UNIT at
 * least is given).  *zeroed: no byte of it was written since the kernel gave
 * it.  NULL: no memory.
 */
void *heap_alloc(size_t bytes, size_t align, bool *zeroed);

/*
 * The same, as far into a huge page as like is, if there is such a place:
 * whole huge pages of either can be moved to the other.
 */
void *heap_alloc_alike(size_t bytes, const void *like, bool *zeroed);

/* Never fails; the pages stay until heap_purge() finds them old. */
void heap_free(void *at, size_t bytes);

/* Take what is free behind a block, or give its tail back. */
bool heap_grow(void *at, size_t oldbytes, size_t newbytes, bool *zeroed);
bool heap_shrink(void *at, size_t oldbytes, size_t newbytes);

/*
 * Give pages back to the kernel that have been free for age_ns, at most
 * limit bytes of them; returns the bytes given back.  Tables that came from
 * os_reserve_zeros() are the caller's business.
 */
size_t heap_purge(uint64_t age_ns, size_t limit);

/* Bytes that are free and not yet given back to the kernel. */
size_t heap_dirty(void);

/* Bytes handed out, and those of foreign mappings that are in the way. */
size_t heap_used(void);

/* Bytes of foreign mappings that are in the way. */
size_t heap_foreign(void);

/* The most bytes that were ever committed: some have gone back. */
size_t heap_committed(void);

/*
 * Bytes handed out, ever, and those of them that had no memory before: modulo
 * SIZE_MAX + 1.
 */
size_t heap_handed(void);
size_t heap_fresh(void);

/*
 * An arena of memory for programs to import from: what it hands out is
 * readable and writable.  NULL: no memory.
 */
vmem_t *heap_public_arena(void);

/* By which that arena releases spans; see vmem_calls_out(). */
void heap_arena_release(vmem_t *source, void *addr, size_t size);

void heap_lock_for_fork(void);
void heap_unlock_for_fork(void);

/* In the child, while the locks are held: ends purges of other threads. */
void heap_after_fork(void);

/*
 * No more huge pages for what there is, since some of it goes back: the kernel
 * would fill whole ones again for the sake of one page.
 */
void heap_unhuge(void);

/* VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT, or 0 for instant fit. */
void heap_policy(int policy_flag);

#endif
