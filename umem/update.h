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
 * Reclaims for a request of size bytes that has found no memory and was tried
 * again ntried times after reclaims before this.  may_call says that the
 * request is one of the program for an object, which may call destructors and
 * reclaim callbacks in the calling thread if the library has no thread.
 * Returns whether the request is to be tried again.  No lock may be held.
 */
bool update_reclaim(size_t size, unsigned ntried, bool may_call);

/*
 * Have the object caches whose slabs come from this arena give back what they
 * keep; quantum caches are not meant.  True if it is worth trying again.
 */
bool update_reclaim_source(vmem_t *source);

/* The same when there is no need; then back to the kernel.  Bytes of it. */
size_t update_trim(void);

/*
 * One update, of the worker's, with calls of the program's functions: for the
 * library's thread.  True if there was something to give back, or will be.
 */
bool update_all(void);

/* Are there free pages that an update can return, now or when they are old? */
bool update_may_purge(void);

/* In the child of fork(): there is no updater, and one thread or none. */
void update_after_fork(bool counted);

#endif
