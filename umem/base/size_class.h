/*
 * size_class.h - request size to size class
 *
 * Class 0 means "no class".  Classes 1 to size_classes.n have increasing chunk
 * sizes: 8, then multiples of 16 up to 256, then eight sizes per doubling up to
 * 32 KiB and four per doubling up to 8 MiB.  UMEM_OPTIONS can edit this list.
 * All sizes but the first are multiples of 16, the alignment that malloc() has
 * to provide.
 *
 * Two tables map a size to its class.  For sizes up to SIZE_SMALL the table
 * small is indexed by the size in units of 8 bytes.  For larger sizes the table
 * medium gives the class of the least size in the same step of 8 KiB; the
 * search goes up from there.  It ends at once unless UMEM_OPTIONS has edited
 * the list.
 */
#ifndef UMEM_SIZE_CLASS_H
#define UMEM_SIZE_CLASS_H

#include "vmem/base.h"

#define SIZE_SMALL     (32 * KIB)
#define SIZE_CLASS_MAX (8 * MIB)
#define SIZE_CLASSES   200 /* capacity, including class 0 */

/* Above SIZE_SMALL, the sizes before any edit are multiples of a step. */
#define SIZE_STEP_SHIFT 13

struct size_classes {
	unsigned n;
	size_t bytes[SIZE_CLASSES + 1];    /* [n + 1] is 0, see cache.h */
	uint8_t small[SIZE_SMALL / 8 + 1]; /* by (size + 7) / 8 */
	uint8_t medium[SIZE_CLASS_MAX >> SIZE_STEP_SHIFT]; /* by size - 1 */
};

extern hidden struct size_classes size_classes;

/*
 * Edit the list of sizes as UMEM_OPTIONS asks, before size_class_start().
 * size_class_add() and size_class_remove() return false if the size is invalid.
 */
bool size_class_add(size_t bytes);
bool size_class_remove(size_t bytes);
void size_class_clear(void);

/*
 * The size that follows a size in the list before any edit.  0 stands before
 * the first size; after SIZE_CLASS_MAX the function returns a larger size.
 */
size_t size_class_default_after(size_t bytes);

/* Fills both tables from the list of sizes. */
void size_class_start(void);

static inline unsigned
size_class_small(size_t size)
{
	return size_classes.small[(size + 7) >> 3];
}

/*
 * The class of a size above SIZE_SMALL that is at most SIZE_CLASS_MAX.  The
 * tables must have been filled.
 */
static inline unsigned
size_class_medium(size_t size)
{
	unsigned c = size_classes.medium[(size - 1) >> SIZE_STEP_SHIFT];

	while (unlikely(size_classes.bytes[c] < size))
		c++;
	return c;
}

/* The class of a size; 0 if the size is above the largest class. */
static inline unsigned
size_class_of(size_t size)
{
	if (size <= SIZE_SMALL)
		return size_class_small(size);
	return size <= size_classes.bytes[size_classes.n]
		   ? size_class_medium(size)
		   : 0;
}

#endif
