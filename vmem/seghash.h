/* seghash.h - hash table from an address to its allocated segment */
#ifndef VMEM_SEGHASH_H
#define VMEM_SEGHASH_H

#include "vmem/segment.h"

/* Buckets of an empty table, a power of two. */
#define SEGHASH_BASE      16
#define SEGHASH_BASE_BITS 4

/* One array for each doubling.  Memory cannot hold enough tags for them all. */
#define SEGHASH_ARRAYS 40

static_assert(SEGHASH_BASE == 1 << SEGHASH_BASE_BITS, "the same number");

/* The allocated segments of one arena, guarded by the arena's lock. */
struct seghash {
	size_t nsegs;
	size_t nbuckets;    /* at least SEGHASH_BASE */
	size_t retry_nsegs; /* after ENOMEM: value of nsegs at which to grow */
	unsigned shift;     /* log2 of the quantum */
	struct segment *base[SEGHASH_BASE];      /* the first buckets */
	struct segment **arrays[SEGHASH_ARRAYS]; /* arrays of further buckets */
};

void seghash_init(struct seghash *hash, size_t quantum);
void seghash_destroy(struct seghash *hash);

/*
 * Insert an allocated segment.  Never fails: without memory for new buckets the
 * table grows later.
 */
void seghash_insert(struct seghash *hash, struct segment *seg);

/* Remove the segment that starts at addr; NULL if there is none. */
struct segment *seghash_remove(struct seghash *hash, uintptr_t addr);

/* The segment that starts at addr, or NULL. */
struct segment *seghash_find(const struct seghash *hash, uintptr_t addr);

/* Is every segment allocated and in its proper bucket, and the count right? */
bool seghash_check(const struct seghash *hash);

#endif
