/*
 * meta.h - memory for the library's own structures
 *
 * Boundary tags, slab descriptions, magazines and caches come from here and
 * from nowhere else, so describing memory never needs an arena, and no arena
 * calls itself.  Blocks are zero, aligned to 16 bytes, and to a cache line
 * from 64 bytes on.
 */
#ifndef VMEM_META_H
#define VMEM_META_H

#include "vmem/base.h"

/* NULL if the kernel has no memory.  bytes is at least 1. */
void *meta_alloc(size_t bytes);

/*
 * The same for what can be done without: does not ask a kernel that refused a
 * moment ago.
 */
void *meta_alloc_spare(size_t bytes);

/* bytes as it was asked for. */
void meta_free(void *block, size_t bytes);

/*
 * Has the kernel refused the last chunk?  Then memory given here, aligned to
 * a cache line and never taken back, is used instead.
 */
bool meta_starved(void);
void meta_feed(void *at, size_t bytes);

/* Bytes in use and bytes taken from the kernel. */
size_t meta_used(void);
size_t meta_mapped(void);

void meta_lock_for_fork(void);
void meta_unlock_for_fork(void);

#endif
