/* limit.h - the number of objects that a program may hold; see limit.c */
#ifndef UMEM_LIMIT_H
#define UMEM_LIMIT_H

#include "umem/umem.h"
#include "vmem/list.h"
#include "vmem/lock.h"

/* Keys: [I] set before the program has the cache, [a] atomic, [q] limit_lock */
struct limit {
	bool counts;         /* [a] false: nothing else here is in use */
	uint32_t nwaiting;   /* [a] requests in waiting; written with [q] */
	int32_t wait_ms;     /* [a] as umem_cache_args.limit_wait */
	size_t most;         /* [a] objects; SIZE_MAX: no limit */
	size_t nheld;        /* [a] objects that the program holds */
	struct list waiting; /* [q] struct waiter, in order of arrival */
	uint64_t nwaits;     /* [a] requests that waited */
	uint64_t nrefused;   /* [a] requests that failed */
};

/* Guards the queues of all caches, and their reserves (reserve.h). */
extern hidden struct lock limit_lock;

/* At the creation of a cache, before the program has it. */
void limit_start(umem_cache_t *cache, const struct umem_cache_args *args);

/*
 * The cache is destroyed with objects in use: requests that wait fail, and
 * nothing is counted any more.
 */
void limit_end(umem_cache_t *cache);

/*
 * A request for n objects of a cache that counts is about to be made.  Returns
 * 0, and then they count, or the error that the request fails with.  May wait.
 */
int limit_take_slow(umem_cache_t *cache, size_t n, int flags);

/* n objects that counted are in use no longer. */
void limit_give_slow(umem_cache_t *cache, size_t n);

#endif
