/*
 * size_class.h - request size to size class
 *
 * Class 0 means "no class".  Classes 1 to size_classes.n have increasing chunk
 * sizes: 8, then multiples of 16 up to 256, then eight sizes per doubling up to
 * 32 KiB and four per doubling up to 8 MiB.  All sizes but the first are
 * multiples of 16, the alignment that malloc() has to provide.
 *
 * Two tables map a size to its class: small up to SIZE_SMALL, in units of 8
 * bytes, and medium above, in steps of 8 KiB, of which the larger chunk sizes
 * are multiples.
 *
 * Each memory node has a cache of each class.  The cache of class c on node n
 * has the number n * NODE_CLASSES + c.  It is the number of the cache's per-CPU
 * header, too, and so in the entries of the page map.
 */
#ifndef UMEM_SIZE_CLASS_H
#define UMEM_SIZE_CLASS_H

#include "vmem/node.h"

#define SIZE_SMALL     (32 * KIB)
#define SIZE_CLASS_MAX (8 * MIB)
#define SIZE_CLASSES   106 /* including class 0 */

/* The numbers of a node: of its classes, and PAGE_MAP_LARGE. */
#define NODE_CLASSES 128u

/* Chunk sizes above SIZE_SMALL are multiples of a step. */
#define SIZE_STEP_SHIFT 13

struct size_classes {
	unsigned n;
	size_t bytes[SIZE_CLASSES + 1];    /* [n + 1] is 0, see cache.h */
	uint8_t small[SIZE_SMALL / 8 + 1]; /* by (size + 7) / 8 */
	uint8_t medium[SIZE_CLASS_MAX >> SIZE_STEP_SHIFT]; /* by size - 1 */
};

extern hidden struct size_classes size_classes;

/* Fills the tables. */
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
	return size_classes.medium[(size - 1) >> SIZE_STEP_SHIFT];
}

/* The number of a class's cache on the node of the calling thread. */
static inline unsigned
class_number(unsigned class)
{
	return node_now() * NODE_CLASSES + class;
}

/* The class of a size; 0 if the size is above the largest class. */
static inline unsigned
size_class_of(size_t size)
{
	if (size <= SIZE_SMALL)
		return size_class_small(size);
	return size <= SIZE_CLASS_MAX ? size_class_medium(size) : 0;
}

#endif
