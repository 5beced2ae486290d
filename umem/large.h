/* large.h - above the largest class: straight from the heap; see large.c */
#ifndef UMEM_LARGE_H
#define UMEM_LARGE_H

#include <string.h>

#include "vmem/base.h"

/* size is above 0, align a power of two.  NULL: no memory. */
void *large_alloc(size_t size, size_t align, bool *zeroed);

/*
 * A span that the address map covers becomes a large block; its owner ends that
 * by large_forget() and keeps the span.
 */
void large_adopt(void *p, size_t bytes);

/* bytes is what addr_map_large_bytes() says of the block. */
void large_free(void *p, size_t bytes);

/* The first half of that: no block any more, but its span is still taken. */
void large_forget(void *p, size_t bytes);

/* Another size, in place or elsewhere; NULL: no memory, the block is whole. */
void *large_resize(void *p, size_t bytes, size_t size);

/* What realloc() makes larger than this becomes a large block. */
#define LARGE_GROWN (1 * MIB)

/* The contents of another block in a new large one.  NULL: no memory. */
void *large_from(void *p, size_t oldbytes, size_t size);

/* A smaller block has hardly a whole huge page. */
#define LARGE_MOVE_LEAST (4 * MIB)

/*
 * Copy to a new place, by moving pages where that is cheaper; the old one may
 * read as zeros then.
 */
void large_copy_or_move(void *to, void *from, size_t bytes);

static inline void
large_copy(void *to, void *from, size_t bytes)
{
	if (likely(bytes < LARGE_MOVE_LEAST))
		memcpy(to, from, bytes);
	else
		large_copy_or_move(to, from, bytes);
}

/* Bytes in large blocks, and how many blocks. */
size_t large_used(void);
size_t large_count(void);

/* The most that large_used() has returned, and the most of large_count(). */
size_t large_used_most(void);
size_t large_count_most(void);

#endif
