/* update.h - upkeep: working sets, memory back to the kernel; see update.c */
#ifndef UMEM_UPDATE_H
#define UMEM_UPDATE_H

#include <pthread.h>

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

/* The same, called after each so many frees that were not slow. */
void update_tick(void);

/*
 * There is no memory for size bytes: have everything that is cached given
 * back.  True if it is worth trying again.  No lock may be held.
 */
bool update_reclaim(size_t size);

/* The same for what caches over this arena have, and only that. */
bool update_reclaim_source(vmem_t *source);

/* The same when there is no need; then back to the kernel.  Bytes of it. */
size_t update_trim(void);

/*
 * For room.c: to be the one who is at work, unless somebody is.  And the
 * worker's walk; f is called without a lock.  True if any f was.
 */
bool worker_begin(void);
void worker_end(void);
bool worker_each_cache(bool (*f)(struct umem_cache *));

/*
 * A walk that does not ask who is at work, and is not alone.  wanted is called
 * with cache_list_lock held; visit without, and not of the program's functions
 * or what calls them; false ends the walk.  So does the end of the cache that
 * was visited.
 */
void visit_each_cache(bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg);

/* Takes the cache off the list, and waits for who is at it. */
void update_wait(struct umem_cache *cache);

/*
 * For malloc.c.  A good place to create the updater's thread; threads: the
 * program has created one.  And: a thread of the program is about to begin,
 * and has ended but for its return to libc.
 */
void update_thread_offer(bool threads);
void update_thread_begins(void);
void update_thread_ends(void);

/* Is the calling thread one that update_thread_ends() will be called for? */
extern bool (*update_thread_counted)(void);

extern int (*update_thread_create)(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* In the child of fork(): there is no updater, and one thread or none. */
void update_after_fork(bool counted);

#endif
