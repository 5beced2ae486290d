/*
 * shrink.h - realloc() to less than half: keep the block or move it?  see
 * shrink.c
 */
#ifndef UMEM_SHRINK_H
#define UMEM_SHRINK_H

#include "vmem/base.h"

/*
 * May a block of bytes bytes stay in place when realloc() shrinks it to size,
 * less than half of it?  If so, the budget pays for the bytes left unused.
 */
bool shrink_keeps_in_place(size_t bytes, size_t size);

/*
 * Records that realloc() has moved a block of old_bytes because it shrank.  The
 * block at to has freed_bytes less than the block at from.
 */
void shrink_moved(
    const void *from, size_t old_bytes, const void *to, size_t freed_bytes);

/*
 * Called before realloc() copies a block to a larger one of size bytes.
 * Returns the bytes to allocate: size, or more if the block had more before it
 * shrank.
 */
size_t shrink_grow_recorded(const void *block, size_t size);

/* [a] At least one block was recorded. */
extern hidden bool shrink_has_records;

static inline size_t
shrink_grow(const void *block, size_t size)
{
	if (likely(!__atomic_load_n(&shrink_has_records, __ATOMIC_RELAXED)))
		return size;
	return shrink_grow_recorded(block, size);
}

#endif
