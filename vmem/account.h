/*
 * account.h - counts of memory, for statistics and for tools
 *
 * Each module adds the bytes that it takes.  umem/stats/stats.c and the
 * command umem combine the counts with those of the caches, the arenas and the
 * metadata allocator.  A cache counts its failed requests itself.
 */
#ifndef VMEM_ACCOUNT_H
#define VMEM_ACCOUNT_H

#include "vmem/base.h"

/* All members are atomic, and in bytes, except those that begin with n. */
struct account {
	size_t program;      /* of the heap, in arenas of the program */
	size_t donated;      /* of the heap, in the metadata allocator */
	size_t firewall;     /* of the heap: addresses, with memory or not */
	size_t purged;       /* parts of slabs that are purged */
	size_t quarantined;  /* of the heap, without memory: freed or lost */
	size_t large;        /* large blocks and samples, whole spans */
	size_t sample_units; /* units for samples, with memory or not */
	size_t sample_unit_spans; /* of these, in unguarded live samples */
	size_t sample_spans;      /* unguarded live samples, whole spans */
	size_t sample_pages;      /* pages of these */
	size_t sample_guarded;    /* pages of live guarded samples */
	size_t sample_warm;       /* pages kept for the next samples */
	size_t tables;            /* of the heap, the page map and the CPUs, and
				     logs */
	size_t nlarge_failed;     /* requests for large blocks that failed */
	size_t nwrong_sizes;      /* frees with a size that does not fit */
	size_t allocated;  /* estimate from samples: by the program, ... */
	size_t freed;      /* ... freed of these, ... */
	size_t nallocated; /* ... and the blocks of both, in parts of
				     SAMPLE_BLOCK_PARTS */
	size_t nfreed;
};

extern hidden struct account account;

static inline size_t
account_add(size_t *member, size_t bytes)
{
	return add_relaxed(member, bytes);
}

static inline void
account_sub(size_t *member, size_t bytes)
{
	sub_relaxed(member, bytes);
}

static inline size_t
account_get(const size_t *member)
{
	return load_relaxed(member);
}

/*
 * Returns the bytes of units for samples, and of their spans, that have no
 * memory.  Racy estimate: the counts are not of one moment.
 */
size_t account_samples_absent(void);

#endif
