/*
 * alloc_inner.h - what the files of the engine share; see alloc.c
 *
 * alloc_resize.c is realloc(), alloc_sized.c umem_alloc() and its relatives,
 * alloc_object.c objects of caches.
 */
#ifndef UMEM_ALLOC_INNER_H
#define UMEM_ALLOC_INNER_H

#include "umem/alloc.h"
#include "umem/debug.h"

/* Class byte that the address map does not have: a large block and sample. */
#define CLASS_SAMPLE (ADDR_LARGE - 1)

/* NULL, ENOMEM, and what UMEM_DEBUG wants of it. */
void *alloc_no_memory(size_t size);

/*
 * A request for objects of a cache fails: NULL and errno; for ENOMEM as
 * alloc_no_memory().  An import cache leaves errno as it is then, because the
 * program's function has set it.
 */
void *alloc_failed_by(int error, const umem_cache_t *cache, size_t bytes);

/*
 * Class of a block with its bytes, ADDR_LARGE or CLASS_SAMPLE, or the end of
 * the program; 0 if it is debugged with noabort, and the misuse was reported.
 */
unsigned alloc_block_class(const void *p, size_t *bytes, const char *who);

/*
 * Class of a block that stays in use, as alloc_block_class() has it; with
 * UMEM_OPTIONS=checked the end of the program if it was freed.
 */
unsigned alloc_block_in_use(void *p, size_t *bytes, const char *who);

/*
 * The same for a block that is to be freed; 0: that has been done, or there
 * is none to free.  kind: whose it is (debug.h).
 */
unsigned alloc_block_to_free(
    void *p, size_t size, unsigned kind, size_t *bytes, const char *who);

/*
 * umem_alloc() without its ways to fail: one attempt, no UMEM_NOFAIL, no
 * umem_setmtbf().  size is above 0.
 */
void *alloc_sized_once(size_t size);

/*
 * For umem_alloc() and its relatives off the fast path: as alloc_slow(),
 * alloc_zeroed(), or alloc_aligned() if align is not 0, without umem_setmtbf().
 */
void *alloc_spared(size_t size, size_t align, bool zero);

/* The class of a block of one that is not debugged; 0: look more closely. */
static inline unsigned
alloc_class_at(const void *p)
{
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;
	uint32_t entry;
	unsigned class;

	if (unlikely(unit >= alloc_fast.units) || unlikely(debug.on))
		return 0;
	entry = __atomic_load_n(&alloc_fast.entry[unit], __ATOMIC_RELAXED);
	class = addr_map_class(entry);
	if (unlikely(class - 1 >= size_classes.n) ||
	    unlikely(!addr_map_is_start(p, entry)))
		return 0;
	return class;
}

/*
 * Is size what a block of umem_alloc() with this class and these bytes, as
 * alloc_block_class() has them, was asked for with?
 */
bool alloc_size_is_right(
    const void *p, unsigned class, size_t bytes, size_t size);

/* The class that a sample would be of, if it were none. */
unsigned alloc_sample_class(const void *p);

static inline uint32_t
alloc_sample_of(const void *p)
{
	return addr_map_sample_index(addr_map_owner(p));
}

/* May a block of so many bytes have been asked for, or resized, with size? */
bool alloc_fits(unsigned class, size_t bytes, size_t size);

#endif
