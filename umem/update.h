/* update.h - upkeep: working sets, memory back to the kernel; see update.c */
#ifndef UMEM_UPDATE_H
#define UMEM_UPDATE_H

#include "umem/cache.h"

enum update_thread {
	THREAD_AUTO,
	THREAD_YES,
	THREAD_NO
};

/* What UMEM_OPTIONS asks for, before the library is started. */
extern enum update_thread update_thread_wanted;
extern uint64_t update_interval_ns;

/*
 * Is an update due?  Then it is done, or the thread told.  Called on slow
 * paths with no lock held; leaves errno alone.
 */
void update_poll(void);

/*
 * There is no memory for size bytes: have everything that is cached given
 * back.  True if it is worth trying again.  No lock may be held.
 */
bool update_reclaim(size_t size);

/* The same when there is no need; then back to the kernel.  Bytes of it. */
size_t update_trim(void);

/* cache is off the list: wait until an update that is at it is through. */
void update_wait(struct umem_cache *cache);

/*
 * Called by malloc.c only, and so only where malloc is ours: from a
 * constructor, and (threads) after the program has created a thread.  From
 * then on the updater's thread is created here or not at all.
 */
void update_thread_offer(bool threads);

/* In the child of fork(): there is no updater. */
void update_after_fork(void);

#endif
