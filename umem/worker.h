/* worker.h - who is at work on the caches, and walks over them; see worker.c */
#ifndef UMEM_WORKER_H
#define UMEM_WORKER_H

#include "umem/cache.h"

/* To be the one who is at work, unless somebody is. */
bool worker_begin(void);
void worker_end(void);

/*
 * Waits so long at most for the end of somebody else's work.  False: it is the
 * caller who is at work.
 */
bool worker_await(uint64_t most_ns);

/*
 * The worker's walk; f is called without a lock.  True if any f was.  An upkeep
 * thread that has been told to end calls f no more.
 */
bool worker_each_cache(bool (*f)(struct umem_cache *));

/*
 * What a walk over some caches is for, each with a place where it goes on; see
 * worker.c.  Caches of size classes are in every walk, and so many others.
 */
#define WALK_OTHERS 32

enum walk {
	WALK_GROWTH,
	WALK_SWEEP,
	WALK_DEPOTS,
	WALK_TALLY,
	WALKS = WALK_TALLY + TALLIES
};

/* The worker's walk over some caches; f is called without a lock. */
void worker_some_caches(enum walk walk, bool (*f)(struct umem_cache *));

/*
 * A walk over some caches that may run beside the worker and others.  wanted
 * is called with cache_list_lock held; visit without, and must not call the
 * program's functions.  False from visit ends the walk.
 */
void visit_some_caches(enum walk walk, bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg);

/*
 * The sum of f over all caches; f, called with cache_list_lock held, is asked
 * for some, and has given its last answer for the others.
 */
size_t tally_caches(enum tally tally, size_t (*f)(struct umem_cache *));

/* Takes the cache off the list, and waits for who is at it. */
void worker_let_go(struct umem_cache *cache);

/* In the child of fork(): nobody is at work. */
void worker_after_fork(void);

#endif
