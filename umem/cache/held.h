/* held.h - a set of pointer-sized values; see held.c */
#ifndef UMEM_HELD_H
#define UMEM_HELD_H

#include "vmem/base.h"

/* Keys: [c] the lock of the caller. */
struct held {
	void **slot; /* [c] NULL: free */
	size_t size; /* [c] slots: a power of two, or 0 */
};

/* Slots for n values at most half full, as a power of two. */
size_t held_size(size_t n);

/* Adds a value.  The set has a free slot.  False: the set contains it. */
bool held_add(struct held *held, void *value);

/* Removes a value.  False: the set does not contain it. */
bool held_remove(struct held *held, void *value);

/* Moves the values of from to an empty set that is at least as large. */
void held_move(struct held *held, const struct held *from);

#endif
