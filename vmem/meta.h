/*
 * meta.h - the metadata allocator: memory for the library's own structures
 *
 * Boundary tags, slab descriptors, magazines and caches are allocated here and
 * nowhere else.  Metadata therefore never needs an arena, and no arena calls
 * itself.  Blocks are zeroed and aligned to 16 bytes.  Blocks of 64 bytes or
 * more are aligned to a cache line.
 */
#ifndef VMEM_META_H
#define VMEM_META_H

#include "vmem/base.h"
#include "vmem/lock.h"

/* Allocate at least 1 byte; NULL if the kernel has no memory. */
void *meta_alloc(size_t bytes);

/*
 * Best-effort allocation, for memory that the caller can do without.  Makes no
 * system call if the kernel has just refused one.
 */
void *meta_alloc_best_effort(size_t bytes);

/* Free a block; bytes is the size that the caller asked for. */
void meta_free(void *block, size_t bytes);

/* Is the allocator exhausted: has the kernel refused the last pool? */
bool meta_is_exhausted(void);

/*
 * Donate memory to the exhausted allocator, which keeps it for ever.  at is
 * aligned to a cache line.
 */
void meta_donate(void *at, size_t bytes);

/* Bytes of allocated blocks, with rounding. */
size_t meta_used(void);

/* Bytes mapped from the kernel. */
size_t meta_mapped(void);

/* Guards the whole allocator; for the atfork handlers. */
extern hidden struct lock meta_lock;

#endif
