/*
 * shrink.h - realloc() to less than half: keep the block or move it?  see
 * shrink.c
 */
#ifndef UMEM_SHRINK_H
#define UMEM_SHRINK_H

#include "vmem/base.h"

/*
 * May a block of bytes bytes stay in place when realloc() shrinks it to size,
 * less than half of it?
 */
bool shrink_stays(size_t bytes, size_t size);

/*
 * Notes that realloc() has moved a block because it shrank.  from had had
 * bytes; the new block at to has slack bytes less.
 */
void shrink_moved(const void *from, size_t had, const void *to, size_t slack);

/*
 * Called before realloc() copies a block to a larger one of size bytes.
 * Returns the bytes to allocate: size, or more if the block had more before it
 * shrank.
 */
size_t shrink_regrows(const void *block, size_t size);

/* [a] At least one block has been remembered. */
extern bool shrink_any;

static inline size_t
shrink_grows(const void *block, size_t size)
{
	if (likely(!__atomic_load_n(&shrink_any, __ATOMIC_RELAXED)))
		return size;
	return shrink_regrows(block, size);
}

/* The budget of bytes that blocks may leave unused now; for tests. */
size_t shrink_credit(void);

#endif
