/* cache_walk.h - walks over the list of caches; see cache_walk.c */
#ifndef UMEM_CACHE_WALK_H
#define UMEM_CACHE_WALK_H

#include "umem/cache/cache.h"

/*
 * The purposes of walks.  WALK_ALL begins at the head of the list and covers
 * all caches.  Each other purpose has its own position in the list, where the
 * next walk resumes; such a walk covers all caches of size classes and at most
 * WALK_OTHERS others.
 */
#define WALK_OTHERS 32

enum cache_walk {
	WALK_ALL,
	WALK_GROWTH,
	WALK_PURGE,
	WALK_DEPOTS,
	WALK_TALLY
};
#define WALKS (WALK_TALLY + (unsigned)TALLIES)

/*
 * Walks over caches; the caller is the worker.  f is called without a lock, and
 * may call functions of the program.  Returns true if any call returned true.
 * After the upkeep thread has been told to end, the walk skips f for the
 * remaining caches.
 */
bool cache_walk_as_worker(enum cache_walk walk, bool (*f)(struct umem_cache *));

/*
 * Walks over caches; may run beside the worker and other walks.  wanted() is
 * called with cache_list_lock held.  f is called without that lock and must not
 * call functions of the program; it ends the walk by returning false.
 */
void cache_walk_beside_worker(enum cache_walk walk,
    bool (*wanted)(struct umem_cache *), bool (*f)(struct umem_cache *, void *),
    void *arg);

/*
 * Returns the sum of f over all caches.  f is called with cache_list_lock held,
 * and only for some caches in each call; the sum uses the last result of f for
 * the other caches.
 */
size_t cache_walk_sum(enum tally tally, size_t (*f)(struct umem_cache *));

/*
 * Unlinks the cache from the list, and waits until no other thread has it
 * pinned.
 */
void cache_walk_unlink(struct umem_cache *cache);

/* Number of forks that led to this process. */
extern hidden uint32_t cache_nforks;

/*
 * In the child of fork(), with cache_list_lock held: other threads, and so
 * their pins and waits, do not exist.
 */
void cache_walk_after_fork_locked(void);

#endif
