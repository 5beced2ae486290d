/*
 * worker.h - the right to do maintenance on the caches, and walks over them;
 * see worker.c
 */
#ifndef UMEM_WORKER_H
#define UMEM_WORKER_H

#include "umem/cache/cache.h"

/*
 * Makes the calling thread the worker.  Returns false if another thread is the
 * worker already.
 */
bool worker_begin(void);

/* Ends the calling thread's turn as the worker. */
void worker_end(void);

/*
 * Waits until the present worker ends its turn, at most most_ns nanoseconds.
 * Returns false, without waiting, if the caller is the worker.
 */
bool worker_await(uint64_t most_ns);

/*
 * Walks over all caches; the caller is the worker.  f is called without a lock.
 * Returns true if any call returned true.  After the upkeep thread has been
 * told to end, it skips f for the remaining caches.
 */
bool worker_each_cache(bool (*f)(struct umem_cache *));

/*
 * The purposes of walks over some caches.  Each purpose has its own position in
 * the list of caches, where the next walk resumes; see worker.c.  Every walk
 * includes all caches of size classes, and at most WALK_OTHERS others.
 */
#define WALK_OTHERS 32

enum walk {
	WALK_GROWTH,
	WALK_SWEEP,
	WALK_DEPOTS,
	WALK_TALLY,
	WALKS = WALK_TALLY + TALLIES
};

/*
 * Walks over some caches; the caller is the worker.  f is called without a
 * lock.
 */
void worker_some_caches(enum walk walk, bool (*f)(struct umem_cache *));

/*
 * Walks over some caches; may run beside the worker and other visits.  wanted()
 * is called with cache_list_lock held.  visit() is called without that lock and
 * must not call functions of the program; it ends the walk by returning false.
 */
void visit_some_caches(enum walk walk, bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg);

/*
 * Returns the sum of f over all caches.  f is called with cache_list_lock held,
 * and only for some caches in each call; the sum uses the last result of f for
 * the other caches.
 */
size_t tally_caches(enum tally tally, size_t (*f)(struct umem_cache *));

/*
 * Unlinks the cache from the list, and waits until the worker and all visits
 * have left it.
 */
void worker_let_go(struct umem_cache *cache);

/*
 * In the child of fork(): clears the worker and invalidates the counts of
 * visits.
 */
void worker_after_fork(void);

#endif
