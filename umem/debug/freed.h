/* freed.h - bufctls of freed buffers without memory; see freed.c */
#ifndef UMEM_FREED_H
#define UMEM_FREED_H

#include "umem/debug/debug.h"
#include "vmem/lock.h"

/* A ring of bufctls; the newest replaces the oldest.  Key: [l] lock */
struct freed_ring {
	struct lock lock; /* rank LOCK_FREED */
	struct bufctl_audit *
	    *bufctl;   /* [l] NULL: this element was never used */
	uint64_t size; /* elements, a power of two; constant */
	uint64_t nput; /* [l] bufctls, cumulative; % size is next */
};

extern hidden struct freed_ring freed_large;    /* large blocks */
extern hidden struct freed_ring freed_firewall; /* buffers behind a firewall */

/*
 * Puts the bufctl into the ring, which owns it from then on.  Returns the
 * bufctl that it replaces, which the caller then owns, or NULL.
 */
struct bufctl_audit *freed_put(
    struct freed_ring *ring, struct bufctl_audit *bufctl);

/*
 * Returns the newest bufctl of a buffer that began at p, or NULL.  Other
 * threads may free so many buffers meanwhile that the bufctl is replaced.  Its
 * memory stays readable, but may then hold the bufctl of another buffer.
 */
struct bufctl_audit *freed_find(struct freed_ring *ring, const void *p);

/*
 * Returns the newest bufctl of a buffer that had p in its units of the heap, or
 * NULL; see freed_find().
 */
struct bufctl_audit *freed_near(struct freed_ring *ring, const void *p);

/*
 * Called before the cache is destroyed: clears the cache pointer in its
 * bufctls.
 */
void freed_forget_cache(
    struct freed_ring *ring, const struct umem_cache *cache);

#endif
