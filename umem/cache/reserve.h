/* reserve.h - objects that a cache keeps for requests in need; see reserve.c */
#ifndef UMEM_RESERVE_H
#define UMEM_RESERVE_H

#include "umem/umem.h"
#include "vmem/base.h"

/* Keys: [a] atomic, written with limit_lock; [q] limit_lock */
struct cache_reserve {
	size_t want;     /* [a] objects to keep; 0: there is no reserve */
	size_t nready;   /* [a] objects in the array */
	void **objects;  /* [q] */
	size_t capacity; /* [q] of the array, in objects */
	uint64_t nused;  /* [a] objects that requests have taken */
};

/*
 * Allocates objects for a reserve that lacks some, with a reclaim of memory if
 * reclaims.  Returns whether it is full now.
 */
bool reserve_fill(umem_cache_t *cache, bool reclaims);

/*
 * Takes n objects for a request that has found no memory; they are as
 * bulk_get() returns them.  Returns n, or 0 if there are fewer.
 */
size_t reserve_take(umem_cache_t *cache, size_t n, void **objects);

/* The cache is about to be destroyed: the reserve goes back to it. */
void reserve_end(umem_cache_t *cache);

#endif
