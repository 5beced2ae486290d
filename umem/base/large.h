/*
 * large.h - blocks above the largest class, directly from the heap; see large.c
 */
#ifndef UMEM_LARGE_H
#define UMEM_LARGE_H

#include <string.h>

#include "vmem/base.h"

/*
 * Allocates a large block of size bytes, more than 0.  align is a power of two.
 * Sets *zeroed to whether the block reads as zeros.  Returns NULL if there is
 * no memory.
 */
void *large_alloc(size_t size, size_t align, bool *zeroed);

/*
 * Makes a large block from a span that the page map covers.  Its owner ends
 * the block by large_unregister() and keeps the span.
 */
void large_register(void *p, size_t bytes);

/*
 * Frees a large block.  bytes is the size that page_map_large_bytes() returns
 * for it.
 */
void large_free(void *p, size_t bytes);

/* Returns the large block that contains p; NULL: none. */
void *large_containing(const void *p);

/*
 * Removes the block from the page map and the counts.  Its span stays
 * allocated.
 */
void large_unregister(void *p, size_t bytes);

/*
 * Enlarges a block in place to bytes, a multiple of HEAP_UNIT.  *zeroed becomes
 * true if all bytes behind the old end are zero.  Returns false, and changes
 * nothing, if the units behind the block are not free or there is no memory.
 */
bool large_grow(void *p, size_t oldbytes, size_t bytes, bool *zeroed);

/*
 * Changes the size of a block in place, or moves it.  Returns the block's new
 * address, or NULL if there is no memory; the old block is unchanged then.
 */
void *large_resize(void *p, size_t bytes, size_t size);

/*
 * A block of a size class with at least this many bytes becomes a large block
 * when realloc() grows it.  To copy fewer bytes takes less time than to
 * allocate a span.
 */
#define LARGE_GROWN (64 * KIB)

/*
 * Allocates a large block and copies oldbytes bytes from p into it.  Returns
 * NULL if there is no memory.  The size is at most PTRDIFF_MAX.
 */
void *large_alloc_copy(void *p, size_t oldbytes, size_t size);

/*
 * The least size to move by pages: two huge pages.  A smaller block may lie so
 * that it has no whole one.
 */
#define LARGE_MOVE_MIN (4 * MIB)

/*
 * Copies bytes from one span to another, by moving whole huge pages where that
 * is cheaper.  The moved parts of the old span may read as zeros afterwards.
 */
void large_copy_or_move(void *to, void *from, size_t bytes);

static inline void
large_copy(void *to, void *from, size_t bytes)
{
	if (likely(bytes < LARGE_MOVE_MIN))
		memcpy(to, from, bytes);
	else
		large_copy_or_move(to, from, bytes);
}

/* The number of large blocks; account.large has their bytes. */
size_t large_count(void);

#endif
