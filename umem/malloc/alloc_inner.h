/*
 * alloc_inner.h - declarations shared by the files of the engine; see alloc.c
 *
 * alloc_resize.c has realloc(), alloc_sized.c has umem_alloc() and its
 * relatives, alloc_object.c has objects of caches.
 */
#ifndef UMEM_ALLOC_INNER_H
#define UMEM_ALLOC_INNER_H

#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"

/* Stands for a large block that is a sample; never in the page map. */
#define CLASS_SAMPLE (PAGE_MAP_LARGE - 1)

/*
 * A block above the small table may be in a chunk of one of so many classes
 * above that of its size.  There are four classes a doubling, so the size is
 * more than half of the chunk.
 */
#define LARGER_CLASSES 3

_Static_assert(SIZE_CLASSES < CLASS_SAMPLE, "no class has this number");

/*
 * Counts a request that has failed for want of memory: size bytes from this
 * cache, or a large block if cache is NULL.  Each request counts once, however
 * often it was tried; with UMEM_NOFAIL it counts for each call of the callback.
 */
void alloc_count_failure(umem_cache_t *cache, size_t size);

/*
 * Counts the failure, reports it as UMEM_DEBUG asks, sets errno to ENOMEM and
 * returns NULL.  cache is as for alloc_count_failure().
 */
void *alloc_no_memory(umem_cache_t *cache, size_t size);

/*
 * Reports and sets errno for a failed request for objects of a cache, which has
 * been counted, and returns NULL.  If the cache is an import cache, errno keeps
 * its value, because the program's function has set it.
 */
void *alloc_failed_by(int error, umem_cache_t *cache);

/*
 * Returns the class of a block, PAGE_MAP_LARGE or CLASS_SAMPLE, and sets *bytes
 * to the bytes of the block.  If p is no block, the call aborts; under
 * UMEM_DEBUG with noabort it reports the misuse and returns 0.
 */
unsigned alloc_block_class(const void *p, size_t *bytes, const char *api);

/*
 * Like alloc_block_class(), for a block that is to be freed.  kind says which
 * API the program called (debug.h).  Returns 0 if nothing is left to do: p is
 * NULL or bootstrap memory, the debug code has freed the block, or the misuse
 * was reported.
 */
unsigned alloc_block_to_free(
    void *p, size_t size, unsigned kind, size_t *bytes, const char *api);

/*
 * Like umem_alloc(), umem_alloc_align() if align is not 0, or umem_zalloc() if
 * zero is set, but makes one attempt and ignores UMEM_NOFAIL and
 * umem_setmtbf().  size is above 0.
 */
void *alloc_sized_once(size_t size, size_t align, bool zero);

/*
 * Allocates for umem_alloc() and its relatives off the fast path, ignoring
 * umem_setmtbf().  Works like alloc_aligned() if align is not 0, otherwise like
 * alloc_zeroed() if zero is set, otherwise like alloc_slow().
 */
void *alloc_exempt(size_t size, size_t align, bool zero);

/*
 * Returns the class of a block by the page map alone; 0 if blocks are
 * debugged or p is not the start of a chunk of a class.
 */
static inline unsigned
alloc_class_at(const void *p)
{
	uint64_t entry;
	unsigned class;

	if (!alloc_map_entry(p, &entry) || unlikely(debug.on))
		return 0;
	class = page_map_class(entry);
	if (unlikely(class - 1 >= size_classes.n) ||
	    unlikely(!page_map_is_start(p, entry)))
		return 0;
	return class;
}

/*
 * Returns the number (size_class.h) of the cache of a block of a class.  If
 * another thread frees the block as well, its slab may go meanwhile.  Then it
 * is a number of this class all the same, and that cache reports the misuse.
 */
static inline unsigned
alloc_number_at(const void *p, unsigned class)
{
	unsigned number =
	    page_map_number(load_relaxed(&page_map.entry[page_map_unit(p)]));

	return likely(number % NODE_CLASSES == class) ? number : class;
}

/*
 * Can size be the size with which the program requested this block from
 * umem_alloc()?  class and bytes are the results of alloc_block_class().
 */
bool alloc_size_matches(
    const void *p, unsigned class, size_t bytes, size_t size);

/* Returns the class that the block would have if it were no sample. */
unsigned alloc_sample_class(const void *p);

static inline uint32_t
alloc_sample_index(const void *p)
{
	umem_assert(page_map_large_bytes(page_map_owner(p)) != 0);
	return page_map_sample_index(page_map_owner(p));
}

/*
 * Can the program have requested, or resized to, size for a block of this many
 * bytes?
 */
bool alloc_size_fits(unsigned class, size_t bytes, size_t size);

/*
 * Resizes a block of umem_alloc() that was requested with a size of old, if
 * that needs no copy by the caller: in place, or by pages of large blocks.
 * Returns NULL, and leaves the block as it is, if the caller must copy it; also
 * if p is NULL, or if blocks are debugged or known to a memory checker.
 */
void *alloc_resize_exact(void *p, size_t old, size_t size);

#endif
