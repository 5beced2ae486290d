/*
 * size_class.h - request size to class
 *
 * Class 0 is no class.  Classes 1 to size_classes.n have growing chunk sizes:
 * 8, then every 16 bytes to 256, then eight a doubling to 32 KiB and four a
 * doubling to 8 MiB, as edited by UMEM_OPTIONS.  All but the first are
 * multiples of 16, which is what malloc() has to align to.
 *
 * Two tables take a size to its class: by eighths of what is at most
 * SIZE_SMALL, by a guess and a step or two above.
 */
#ifndef UMEM_SIZE_CLASS_H
#define UMEM_SIZE_CLASS_H

#include "vmem/base.h"

#define SIZE_SMALL     (32 * KIB)
#define SIZE_CLASS_MAX (8 * MIB)
#define SIZE_CLASSES   200 /* room, class 0 included */

struct size_classes {
	unsigned n;
	size_t bytes[SIZE_CLASSES + 1];    /* of class n + 1: 0, see cache.h */
	uint8_t small[SIZE_SMALL / 8 + 1]; /* by (size + 7) / 8 */
	uint8_t guess[10 * 8]; /* by the four highest bits of size - 1 */
};

extern struct size_classes size_classes;

/* What UMEM_OPTIONS asks for, before size_class_start(). */
bool size_class_add(size_t bytes);
bool size_class_remove(size_t bytes);
void size_class_clear(void);

/* Fills the tables. */
void size_class_start(void);

static inline unsigned
size_class_small(size_t size)
{
	return size_classes.small[(size + 7) >> 3];
}

/* size is above SIZE_SMALL; 0 if it is above the largest class, too. */
static inline unsigned
size_class_medium(size_t size)
{
	unsigned bit = highbit(size - 1);
	unsigned c;

	if (size > size_classes.bytes[size_classes.n])
		return 0;
	c = size_classes
		.guess[(bit - 15) * 8 + (((size - 1) >> (bit - 3)) & 7)];
	while (size_classes.bytes[c] < size)
		c++;
	return c;
}

static inline unsigned
size_class_of(size_t size)
{
	return size <= SIZE_SMALL ? size_class_small(size)
				  : size_class_medium(size);
}

#endif
