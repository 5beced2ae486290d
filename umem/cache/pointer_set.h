/* pointer_set.h - a set of pointer-sized values; see pointer_set.c */
#ifndef UMEM_POINTER_SET_H
#define UMEM_POINTER_SET_H

#include "vmem/base.h"

/* Keys: [c] the lock of the caller. */
struct pointer_set {
	void **slot; /* [c] NULL: free */
	size_t size; /* [c] slots: a power of two, or 0 */
};

/* Slots for n values at most half full, as a power of two. */
size_t pointer_set_size(size_t n);

/* Adds a value.  The set has a free slot.  False: the set contains it. */
bool pointer_set_add(struct pointer_set *set, void *value);

/* Removes a value.  False: the set does not contain it. */
bool pointer_set_remove(struct pointer_set *set, void *value);

/* Moves the values of from to an empty set that is at least as large. */
void pointer_set_move(struct pointer_set *set, const struct pointer_set *from);

#endif
