/* freed.h - records of buffers that were freed with their memory; freed.c */
#ifndef UMEM_FREED_H
#define UMEM_FREED_H

#include "umem/debug.h"
#include "vmem/lock.h"

/* A ring of records, the newest over the oldest.  Key: [l] lock */
struct freed_ring {
	struct lock lock;       /* rank LOCK_LOG */
	struct bufctl **record; /* [l] NULL: this place was never used */
	uint64_t size;          /* places, a power of two; constant */
	uint64_t nput;          /* [l] records ever put; % size is next */
};

extern struct freed_ring freed_large;    /* large blocks */
extern struct freed_ring freed_firewall; /* buffers behind a firewall */

/*
 * Puts the record into the ring, which owns it from then on.  Returns the
 * record that lost its place to it, which the caller owns, or NULL.
 */
struct bufctl *freed_put(struct freed_ring *ring, struct bufctl *bufctl);

/*
 * The newest record of a buffer that began at p, or NULL.  Other threads may
 * free so many buffers meanwhile that the record loses its place: its memory
 * stays readable, but may then hold the record of another buffer.
 */
struct bufctl *freed_find(struct freed_ring *ring, const void *p);

/* The cache is about to be destroyed: its records name no cache any more. */
void freed_forget_cache(
    struct freed_ring *ring, const struct umem_cache *cache);

void freed_lock_for_fork(void);
void freed_unlock_for_fork(void);

#endif
