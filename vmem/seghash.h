/* seghash.h - from an allocated address to its segment */
#ifndef VMEM_SEGHASH_H
#define VMEM_SEGHASH_H

#include "vmem/segment.h"

/* Buckets that are there from the start; a power of two. */
#define SEGHASH_BASE      16
#define SEGHASH_BASE_BITS 4

/* One array for each doubling up to more segments than memory can hold. */
#define SEGHASH_ARRAYS 40

/* The allocated segments of one arena, guarded by the arena's lock. */
struct seghash {
	size_t nsegs;
	size_t nbuckets; /* from SEGHASH_BASE up */
	size_t retry;    /* nsegs at which to grow again after ENOMEM */
	unsigned shift;  /* quantum as a power of two */
	struct segment *base[SEGHASH_BASE];
	struct segment **more[SEGHASH_ARRAYS];
};

void seghash_init(struct seghash *hash, size_t quantum);
void seghash_destroy(struct seghash *hash);

/* Neither can fail; growing that has no memory is put off. */
void seghash_insert(struct seghash *hash, struct segment *seg);

/* Take out the segment that starts at addr; NULL if none does. */
struct segment *seghash_remove(struct seghash *hash, uintptr_t addr);

struct segment *seghash_find(const struct seghash *hash, uintptr_t addr);

/* Take up to nsteps steps towards the proper number of buckets. */
void seghash_settle(struct seghash *hash, size_t nsteps);

bool seghash_check(const struct seghash *hash);

#endif
