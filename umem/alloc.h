/*
 * alloc.h - the allocation engine under malloc() and umem_alloc()
 *
 * The inline functions here are the fast paths: a table look-up and one
 * restartable section.  What they cannot do, they leave to alloc.c by a tail
 * call.  They do not ask whether the library is started: before that, and in
 * the locked mode, small_end and units are 0 and object_least is above every
 * address, so that every call is slow.
 * While there is sampling small_end is 0, and alloc_slow() counts (sample.c).
 */
#ifndef UMEM_ALLOC_H
#define UMEM_ALLOC_H

#include <string.h>

#include "magazine/cpu.h"
#include "umem/addr_map.h"
#include "umem/size_class.h"

/* What a fast path reads, on one cache line; written at start. */
struct alloc_fast {
	size_t small_end;    /* sizes below this go by the small table */
	struct cpu_hot *hot; /* header 0 of CPU 0; a class's is at its number */
	struct rseq_place place;
	uintptr_t base;         /* as in addr_map */
	size_t units;           /* as in addr_map, or 0: go slow */
	const uint32_t *entry;  /* as in addr_map */
	uintptr_t object_least; /* objects below this, NULL, are freed slowly */
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(sizeof(struct alloc_fast) == CACHE_LINE, "one line");

extern struct alloc_fast alloc_fast;

/* Bytes of a block of umem_alloc(0); 0: there is none.  An option. */
extern size_t alloc_zero_bytes;

/* What the slow and the fast paths have in common: NULL and ENOMEM, or memory. */
void *alloc_slow(size_t size);
void alloc_free_slow(void *p);

/*
 * Frees p as memory of this kind (debug.h), of which debugged blocks must be.
 * who names the function in messages.
 */
void alloc_free_as(void *p, unsigned kind, const char *who);

/* The same of a block that was asked for with this size, and alignment. */
void alloc_free_sized(void *p, size_t size, unsigned kind, const char *who);
void alloc_free_aligned(
    void *p, size_t align, size_t size, unsigned kind, const char *who);

/* A debugged block that was just allocated, or NULL, is of this kind. */
void alloc_set_kind(void *p, unsigned kind);

/* Zero bytes. */
void *alloc_zeroed(size_t size);

/* align is a power of two. */
void *alloc_aligned(size_t size, size_t align);

/*
 * realloc() of a block to a size above 0.  NULL and ENOMEM: the block is
 * still there.
 */
void *alloc_resize(void *p, size_t size);

/* Bytes that may be used of a block, which is not NULL. */
size_t alloc_usable(const void *p, const char *who);

/* Fast paths on or off, as umem_setmtbf() and umem_sample() want them. */
void alloc_choose_paths(void);

/* An object of a class; false: not so fast. */
static inline __attribute__((always_inline)) bool
alloc_pop(unsigned class, void **object)
{
	return likely(rseq_pop(&alloc_fast.place, alloc_fast.hot,
			  class * sizeof(struct cpu_hot), object) == RSEQ_OK);
}

/* A block; false: not so fast. */
static inline __attribute__((always_inline)) bool
alloc_get_fast(size_t size, void **object)
{
	return likely(size < alloc_fast.small_end) &&
	       alloc_pop(size_class_small(size), object);
}

static inline __attribute__((always_inline)) void *
alloc_get(size_t size)
{
	void *object;

	return alloc_get_fast(size, &object) ? object : alloc_slow(size);
}

static inline __attribute__((always_inline)) void *
alloc_get_zeroed(size_t size)
{
	void *object;

	if (likely(size < alloc_fast.small_end) &&
	    alloc_pop(size_class_small(size), &object))
		return memset(object, 0, size);
	return alloc_zeroed(size);
}

/*
 * Memory at a multiple of align, or NULL: not so fast.  The class of size made
 * a multiple of align has such bytes itself, if it is one of size_class.c's;
 * one that UMEM_OPTIONS adds need not.
 */
static inline __attribute__((always_inline)) void *
alloc_aligned_fast(size_t size, size_t align)
{
	size_t rounded = (size + align - 1) & ~(align - 1);
	unsigned class;
	void *object;

	/*
	 * For a size that is not small rounded may have gone round to 0, which
	 * is for the slow way, too.
	 */
	if (unlikely(size - 1 >= alloc_fast.small_end) ||
	    unlikely(rounded >= alloc_fast.small_end))
		return NULL;
	class = size_class_small(rounded);
	if (unlikely((size_classes.bytes[class] & (align - 1)) != 0) ||
	    !alloc_pop(class, &object))
		return NULL;
	return object;
}

static inline __attribute__((always_inline)) void *
alloc_get_aligned(size_t size, size_t align)
{
	void *p = alloc_aligned_fast(size, align);

	return likely(p != NULL) ? p : alloc_aligned(size, align);
}

/*
 * Takes back what lies in a unit with this entry, at which is addr_map_at() of
 * it; false: not so fast.
 */
static inline __attribute__((always_inline)) bool
alloc_free_in(void *p, size_t at, uint32_t entry)
{
	return likely(rseq_push_chunk(&alloc_fast.place, alloc_fast.hot, at, p,
			  addr_map_x(p, entry)) == RSEQ_OK);
}

/* False: not so fast. */
static inline __attribute__((always_inline)) bool
alloc_free_fast(void *p)
{
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;

	if (likely(unit < alloc_fast.units)) {
		uint32_t entry = alloc_fast.entry[unit];

		return alloc_free_in(p, addr_map_at(entry), entry);
	}
	return false;
}

static inline __attribute__((always_inline)) void
alloc_free(void *p)
{
	if (!alloc_free_fast(p))
		alloc_free_slow(p);
}

/*
 * The size must be one that malloc() or realloc() was asked for.  False: not so
 * fast.
 */
static inline __attribute__((always_inline)) bool
alloc_free_sized_fast(void *p, size_t size)
{
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;

	if (likely(unit < alloc_fast.units) && likely(size <= SIZE_SMALL)) {
		uint32_t entry = alloc_fast.entry[unit];
		size_t at = size_class_small(size) * sizeof(struct cpu_hot);

		/* By the size, which is known before the map's entry is. */
		return likely(addr_map_at(entry) == at) &&
		       alloc_free_in(p, at, entry);
	}
	return false;
}

#endif
