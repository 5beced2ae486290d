/*
 * alloc_resize.c - resizing of blocks
 *
 * A block stays in place while its chunk is good enough for the new size: while
 * it uses more than half of it.  Large blocks, and those of a class whose slabs
 * have one chunk, grow, shrink and move as large.c can do it.  All others are
 * copied.
 */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/base/checker.h"
#include "umem/base/large.h"
#include "umem/cache/misuse.h"
#include "umem/profile/sample.h"
#include "umem/upkeep/update.h"

/* Smaller chunks cost less than the copy. */
#define RESIZE_TINY 64

/*
 * Does a block of this many bytes stay in place for size?  A smaller size keeps
 * the chunk while it uses more than half of it, or if the chunk has at most
 * RESIZE_TINY bytes.
 */
static bool
resize_keeps_in_place(size_t bytes, size_t size)
{
	return size <= bytes && (size > bytes / 2 || bytes <= RESIZE_TINY);
}

/* Keeps the block in place for a size that is too small for its chunk. */
static void *
resize_keep_too_large(void *p)
{
	if (!load_relaxed(&debug.sizes_are_relaxed))
		store_relaxed(&debug.sizes_are_relaxed, true);
	return p;
}

bool
alloc_size_fits(unsigned class, size_t bytes, size_t size)
{
	if ((size <= bytes && load_relaxed(&debug.sizes_are_relaxed)) ||
	    resize_keeps_in_place(bytes, size))
		return true;
	return class == PAGE_MAP_LARGE ? align_up(size, HEAP_UNIT) == bytes
				       : size_class_of(size) == class;
}

static void *
resize_by_copy(void *p, size_t bytes, size_t size)
{
	void *q = alloc_get(size);

	umem_assert(p != NULL);
	/* Callers do not expect that shrinking a block fails. */
	if (q == NULL)
		return size <= bytes ? resize_keep_too_large(p) : NULL;
	large_copy(q, p, bytes < size ? bytes : size);
	alloc_free(p);
	return q;
}

/*
 * Tries to resize a large block; sample is the number of its sample, or 0.  A
 * block that it enlarges is counted like a new one.
 */
static void *
resize_large_once(void *p, size_t bytes, size_t size, uint32_t sample)
{
	void *q;

	umem_assert(size >= LARGE_GROWN);
	if (sample != 0)
		return sample_resize_large(sample, size);
	q = large_resize(p, bytes, size);
	if (q != NULL && size > bytes && sample_is_on())
		sample_grown(q, size);
	return q;
}

/*
 * Moves a block of a size class into a large block.  Returns NULL if there is
 * no memory.
 */
static void *
resize_to_large(void *p, size_t bytes, size_t size)
{
	void *q = large_alloc_copy(p, bytes, size);

	umem_assert(bytes < size && bytes >= LARGE_GROWN);
	if (q == NULL)
		return NULL;
	if (sample_is_on())
		sample_grown(q, size);
	alloc_free(p);
	return q;
}

/* Resizes a block if it has a size class now, or if its new size has one. */
static inline void *
resize_class(void *p, size_t bytes, size_t size)
{
	return resize_keeps_in_place(bytes, size)
		   ? p
		   : resize_by_copy(p, bytes, size);
}

/*
 * Resizes a debugged block in its own chunk or pages if that is possible;
 * otherwise copies it to a new block.
 */
static void *
resize_debugged(unsigned class, void *p, size_t size)
{
	size_t old = class == 0 ? SIZE_MAX : debug_usable(class, p);
	bool is_of_class;

	umem_assert(debug.on);
	if (old == SIZE_MAX)
		return fail_null(EINVAL);
	is_of_class = class == PAGE_MAP_LARGE
			  ? size > SIZE_SMALL
			  : debug_class(size_class_of(size), size) == class;
	if (old == size || (is_of_class && debug_resize(class, p, size)))
		return p;
	return resize_by_copy(p, old, size);
}

/* Copies by hand, because memcpy() may not be callable yet. */
static void *
resize_boot(const char *p, size_t size)
{
	size_t bytes = bootstrap_usable(p) < size ? bootstrap_usable(p) : size;
	char *q = alloc_get(size);

	umem_assert(bootstrap_owns(p));
	for (size_t i = 0; q != NULL && i < bytes; i++)
		((volatile char *)q)[i] = p[i];
	return q;
}

/* Resizes a block that is large before and after, as resize_large_once(). */
static void *
resize_large(void *p, size_t bytes, size_t size, uint32_t sample)
{
	void *q;

	if (align_up(size, HEAP_UNIT) == bytes && sample == 0)
		return p;
	q = resize_large_once(p, bytes, size, sample);
	for (unsigned i = 0;
	     q == NULL && update_reclaim(size, i, /* may_call */ false); i++)
		q = resize_large_once(p, bytes, size, sample);
	/* A program may do nothing else. */
	update_poll();
	if (q == NULL)
		return alloc_no_memory(NULL, size);
	if (align_up(size, HEAP_UNIT) < page_map_large_bytes(page_map_owner(q)))
		resize_keep_too_large(q);
	return q;
}

/* Resizes a sample.  A large sample grows like other large blocks. */
static void *
resize_sample(void *p, size_t bytes, size_t size)
{
	uint32_t index = alloc_sample_index(p);
	void *q;

	if (sample_resizes(index, size))
		return resize_large(p, bytes, size, index);
	q = resize_class(p, bytes, size);
	if (q == p)
		sample_resize_in_place(index, size);
	return q;
}

/*
 * Is a block of a class better a large block for this size?  Large blocks are
 * made without the functions that debug blocks.
 */
static bool
resize_wants_large(size_t bytes, size_t size)
{
	return size >= LARGE_GROWN && !resize_keeps_in_place(bytes, size) &&
	       !debug.on && !checker_on;
}

/*
 * Reports a block that is the newest in the magazine of this CPU: a free block,
 * which would be allocated again after it has become a large block.
 */
static void
check_not_freed(struct umem_cache *cache, void *p)
{
	void *newest;

	if (alloc_fast.units == 0 || !alloc_pop(cache->class, &newest))
		return;
	if (unlikely(newest == p))
		misuse_slab("realloc", cache, p, SLAB_FREE);
	alloc_free(newest);
}

/*
 * Resizes a block by its kind: sample, debugged, large, or of a class.  A block
 * of a class with a slab of its own becomes a large block where it is: it can
 * grow into the span behind it, or release its tail, and nothing is copied.
 */
static void *
resize_by_kind(unsigned class, void *p, size_t bytes, size_t size)
{
	void *q = NULL;

	if (unlikely(class == CLASS_SAMPLE))
		return resize_sample(p, bytes, size);
	if (unlikely(debug.on) && (class == 0 || debug_cache_of(class) != NULL))
		return resize_debugged(class, p, size);
	if (class != PAGE_MAP_LARGE && resize_wants_large(bytes, size)) {
		struct umem_cache *cache =
		    class_cache[alloc_number_at(p, class)];

		check_not_freed(cache, p);
		if (slab_detach(&cache->slabs, p)) {
			large_register(p, bytes);
			class = PAGE_MAP_LARGE;
		} else if (size > bytes && bytes >= LARGE_GROWN) {
			q = resize_to_large(p, bytes, size);
		}
	}
	if (class == PAGE_MAP_LARGE && size >= LARGE_GROWN)
		return resize_large(p, bytes, size, 0);
	return q != NULL ? q : resize_class(p, bytes, size);
}

static noinline void *
resize_slow(void *p, size_t size)
{
	size_t bytes;
	unsigned class;

	if (size > PTRDIFF_MAX)
		return alloc_no_memory(NULL, size);
	if (bootstrap_owns(p))
		return resize_boot(p, size);
	if (unlikely(!umem_ready()))
		misuse("realloc", p, "not an address of the heap");
	class = alloc_block_class(p, &bytes, "realloc");
	return resize_by_kind(class, p, bytes, size);
}

void *
alloc_resize(void *p, size_t size)
{
	unsigned class = likely(size <= SIZE_SMALL) ? alloc_class_at(p) : 0;

	if (likely(class != 0))
		return resize_class(p, size_classes.bytes[class], size);
	return resize_slow(p, size);
}

void *
alloc_resize_exact(void *p, size_t old, size_t size)
{
	size_t bytes;
	uint32_t sample = 0;
	unsigned class;
	void *q;

	if (p == NULL || size > PTRDIFF_MAX || debug.on || checker_on ||
	    bootstrap_owns(p))
		return NULL;
	class = alloc_block_class(p, &bytes, "umem_realloc");
	if (unlikely(!alloc_size_matches(p, class, bytes, old)))
		misuse_size("umem_realloc", p, old);
	if (class == CLASS_SAMPLE)
		sample = alloc_sample_index(p);
	if (sample != 0 && !sample_resizes(sample, size))
		return NULL;
	if (sample == 0 && alloc_size_matches(p, class, bytes, size))
		return p;
	if (sample == 0 && class != PAGE_MAP_LARGE)
		return size > bytes && bytes >= LARGE_GROWN
			   ? resize_to_large(p, bytes, size)
			   : NULL;
	q = size >= LARGE_GROWN ? resize_large_once(p, bytes, size, sample)
				: NULL;
	update_poll();
	/* Without memory for its records, a block stays as large as it was. */
	if (sample == 0 && q == p &&
	    page_map_large_bytes(page_map_owner(p)) == bytes)
		return NULL;
	return q;
}
