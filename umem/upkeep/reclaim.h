/* reclaim.h - the memory policy: how much may be idle, and for how long */
#ifndef UMEM_RECLAIM_H
#define UMEM_RECLAIM_H

#include "umem/cache/cache_walk.h"

/* [a] heap_allocated_total() below which reclaim_check() finds no work. */
extern hidden size_t reclaim_at;

/* Idle bytes are released at this age if they are no more than the target. */
#define RECLAIM_AGE_NS ((uint64_t)1000000000)

/* The most bytes that one call of the program releases of a level. */
#define RELEASE_LIMIT (128 * MIB)

/* The most pressure: half of the memory, or more, is idle. */
#define RECLAIM_PRESSURE_MAX 3

/*
 * The part of an age that is left under pressure: from all of it to 2/5 of it.
 */
#define reclaim_age(age, pressure) ((age) * 2 / (2 + (pressure)))

/*
 * Returns 0 if idle bytes out of bytes are less than twice the target, and
 * more, up to RECLAIM_PRESSURE_MAX, the more they exceed it.
 */
unsigned reclaim_pressure(size_t idle, size_t bytes);

/* The pressure of the dirty pages alone; a racy estimate that takes no lock. */
unsigned reclaim_dirty_pressure(void);

/*
 * The pressure of dirty pages and free pages in slabs, and of the soft limit.
 * Takes locks.
 */
unsigned reclaim_page_pressure(void);

/*
 * Does a step if one is due: reclaims memory that caches keep if the heap has
 * allocated much since the last step.  Called on slow paths with no lock held;
 * leaves errno alone.
 */
void reclaim_check(void);

/* About how many bytes are idle in all levels but CPU caches.  Takes locks. */
size_t reclaim_idle_bytes(void);

/* Releases about this many bytes from depots to the slabs. */
void reclaim_depots(size_t bytes);

/*
 * Purges about this many bytes of free pages of slabs, in the caches of the
 * walk.  Returns the bytes purged.  Only the worker may call it.
 */
size_t reclaim_slab_pages(enum cache_walk walk, size_t bytes);

/*
 * Releases empty slabs, and purges free pages of slabs, about this many bytes.
 * Only the worker may call it.  Like the two functions around it, it does
 * nothing in a child that the worker has forked since its turn began.
 */
void reclaim_slabs(size_t bytes);

/*
 * Reaps the caches for which that calls no function of the program.  Returns
 * whether a thread that may call the program can release more.  Only the worker
 * may call it.
 */
bool reclaim_caches_without_calls(void);

#endif
