/* shrink.h - realloc() to less than half: does the block stay? see shrink.c */
#ifndef UMEM_SHRINK_H
#define UMEM_SHRINK_H

#include "vmem/base.h"

/* May a block of so many bytes stay where it is, being used less than half? */
bool shrink_stays(size_t bytes, size_t size);

/* It did not: a block that had so many bytes is slack bytes smaller now. */
void shrink_moved(const void *from, size_t had, const void *to, size_t slack);

/*
 * A block is to grow, and will be copied for it.  The bytes that the new one
 * should have: size, or what it had before it shrank.
 */
size_t shrink_regrows(const void *block, size_t size);

/* [a] Some block has been remembered, ever. */
extern bool shrink_any;

static inline size_t
shrink_grows(const void *block, size_t size)
{
	if (likely(!__atomic_load_n(&shrink_any, __ATOMIC_RELAXED)))
		return size;
	return shrink_regrows(block, size);
}

/* Bytes that blocks may keep now; for tests. */
size_t shrink_credit(void);

#endif
