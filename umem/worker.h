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
 * A walk that does not ask who is at work, and is not alone.  wanted is called
 * with cache_list_lock held; visit without, and not of the program's functions
 * or what calls them; false ends the walk.  So does the end of the cache that
 * was visited.
 */
void visit_each_cache(bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg);

/* Takes the cache off the list, and waits for who is at it. */
void worker_let_go(struct umem_cache *cache);

/* In the child of fork(): nobody is at work. */
void worker_after_fork(void);

#endif
