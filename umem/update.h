/* update.h - upkeep: working sets, memory back to the kernel; see update.c */
#ifndef UMEM_UPDATE_H
#define UMEM_UPDATE_H

#include "umem/cache.h"

/* What UMEM_OPTIONS asks for, before the library is started. */
extern uint64_t update_interval_ns;

/*
 * Is an update due?  Then it is done, or the thread told.  Called on slow
 * paths with no lock held; leaves errno alone.
 */
void update_poll(void);

/* The same, called after each so many frees that were not slow. */
void update_tick(void);

/*
 * There is no memory for size bytes: have everything that is cached given
 * back.  True if it is worth trying again.  No lock may be held.
 */
bool update_reclaim(size_t size);

/*
 * Have the object caches whose slabs come from this arena give back what they
 * keep; quantum caches are not meant.  True if it is worth trying again.
 */
bool update_reclaim_source(vmem_t *source);

/* The same when there is no need; then back to the kernel.  Bytes of it. */
size_t update_trim(void);

/*
 * One update, of the worker's.  True if there was something to give back, or
 * will be.
 */
bool update_all(void);

/* Are there free pages that an update can return, now or when they are old? */
bool update_may_purge(void);

/* In the child of fork(): there is no updater, and one thread or none. */
void update_after_fork(bool counted);

#endif
