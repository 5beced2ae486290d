/*
 * alloc.h - the allocation engine under malloc() and umem_alloc()
 *
 * The inline functions here are the fast paths: a table look-up and one
 * restartable section.  A fast path that fails continues in alloc.c by a tail
 * call.  The fast paths do not test whether the library is started.  Before the
 * start, and in locked mode, small_end and units are 0 and object_least is
 * above every address, so that every call takes the slow path.
 *
 * While sampling is on, marked rounds (cpu_marks.h) decide about sizes below
 * small_end, and alloc_larger() counts the bytes of larger sizes (sample.c).
 */
#ifndef UMEM_ALLOC_H
#define UMEM_ALLOC_H

#include <string.h>

#include "magazine/cpu.h"
#include "umem/base/page_map.h"
#include "umem/base/size_class.h"
#include "umem/profile/sample.h"
#include "vmem/panic.h"

/* True in the library that defines the names of malloc. */
extern hidden const bool umem_is_malloc;

/* The words that the fast paths read, on one cache line; written at start. */
struct alloc_fast {
	size_t small_end; /* smaller sizes use the small table */
	struct rseq_place place;
	uintptr_t base;         /* as in page_map */
	size_t units;           /* as in page_map; 0: slow path only */
	const uint64_t *entry;  /* as in page_map */
	uintptr_t object_least; /* objects below it, and NULL: freed slowly */
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(sizeof(struct alloc_fast) == CACHE_LINE, "one line");

extern hidden struct alloc_fast alloc_fast;

/*
 * Bytes of the block that umem_alloc(0) allocates; 0: umem_alloc(0) returns
 * NULL. An option.
 */
extern hidden size_t alloc_zero_bytes;

/*
 * Slow paths of allocation and free.  alloc_larger() is for sizes that are not
 * below small_end, alloc_missed() for a smaller size whose section has missed,
 * and alloc_slow() for both.  They return NULL and set errno to ENOMEM if there
 * is no memory.
 */
void *alloc_larger(size_t size);
void *alloc_missed(size_t size);
void *alloc_slow(size_t size);
void alloc_free_slow(void *p);

/*
 * Frees p, which the program passed to a function of this kind (debug.h).  The
 * kind of a debugged block must match.  Messages name api, the
 * function that the program called.
 */
void alloc_free_as(void *p, unsigned kind, const char *api);

/*
 * Like alloc_free_as(), for a block that the caller requested with this size,
 * and with this alignment.  Sizes and alignments are in bytes.  A size
 * or an alignment that does not fit the block is counted, or reported if blocks
 * are debugged.
 */
void alloc_free_sized(void *p, size_t size, unsigned kind, const char *api);
void alloc_free_aligned(
    void *p, size_t align, size_t size, unsigned kind, const char *api);

/*
 * Allocates a block of this kind by hardened_alloc(), if requests may use that
 * now; otherwise returns NULL.
 */
void *alloc_hardened(size_t size, unsigned kind);

/*
 * Sets the kind of a block that was just allocated, if blocks are debugged.  p
 * may be NULL.
 */
void alloc_set_kind(void *p, unsigned kind);

/* Allocates size bytes that are zero. */
void *alloc_zeroed(size_t size);

/* Allocates size bytes at a multiple of align, which is a power of two. */
void *alloc_aligned(size_t size, size_t align);

/*
 * Like realloc(), for a size above 0.  If there is no memory, returns NULL with
 * errno ENOMEM and leaves the block as it is.
 */
void *alloc_resize(void *p, size_t size);

/*
 * Returns the usable bytes of the block p, which is not NULL; 0 if no block
 * starts there.  Debugging reports such an address in the heap; the message
 * names api, the function that the program called.
 */
size_t alloc_usable(const void *p, const char *api);

/*
 * Returns the usable bytes that a block of this size and alignment, a power of
 * two, would have; 0: no block can have this size or alignment.  Allocates
 * nothing.
 */
size_t alloc_round(size_t size, size_t align);

/*
 * Enables or disables the fast paths, according to umem_setmtbf() and
 * umem_sample().
 */
void alloc_choose_paths(void);

/*
 * Allocates an object by one attempt, for quantum caches: it counts no failure,
 * refuses nothing for a test, and calls no function of the program.
 */
void *object_alloc_once(struct umem_cache *cache);

/* Allocates an object of a class.  Returns false if the caller must go slow. */
static inline __attribute__((always_inline)) bool
alloc_pop(unsigned class, void **object)
{
	return likely(rseq_pop(&alloc_fast.place,
			  class * sizeof(struct cpu_hot), object) == RSEQ_OK);
}

/* Allocates a block.  Returns false if the caller must take the slow path. */
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

	if (unlikely(size >= alloc_fast.small_end))
		return alloc_larger(size);
	return alloc_pop(size_class_small(size), &object) ? object
							  : alloc_missed(size);
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
 * Finds the class from which the fast path allocates at a multiple of align.
 * Returns false if the caller must take the slow path.  size is rounded up to a
 * multiple of align.  The chunk size of its class is then a multiple of align,
 * too.
 */
static inline __attribute__((always_inline)) bool
alloc_aligned_class(size_t size, size_t align, unsigned *class)
{
	size_t rounded = (size + align - 1) & ~(align - 1);

	/*
	 * The test of size - 1 rejects 0 and every size that is not small.  It
	 * is needed because rounded may have wrapped to 0 for a large size.
	 */
	if (unlikely(size - 1 >= alloc_fast.small_end) ||
	    unlikely(rounded >= alloc_fast.small_end))
		return false;
	*class = size_class_small(rounded);
	umem_assert(size_classes.bytes[*class] % align == 0);
	return true;
}

/* Returns NULL if the caller must take the slow path. */
static inline __attribute__((always_inline)) void *
alloc_aligned_fast(size_t size, size_t align)
{
	unsigned class;
	void *object;

	if (!alloc_aligned_class(size, align, &class) ||
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
 * Loads the map entry of the unit that p points into.  Returns false if the
 * page map has no such unit.
 */
static inline __attribute__((always_inline)) bool
alloc_map_entry(const void *p, uint64_t *entry)
{
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;

	if (unlikely(unit >= alloc_fast.units))
		return false;
	*entry = load_relaxed(&alloc_fast.entry[unit]);
	return true;
}

/*
 * Frees the chunk p.  header_offset and x are page_map_header_offset() and
 * page_map_chunk_offset() of the map entry of its unit.  Returns false if the
 * caller must take the slow path.
 */
static inline __attribute__((always_inline)) bool
alloc_push_chunk(void *p, size_t header_offset, uint32_t x)
{
	umem_assert(header_offset % sizeof(struct cpu_hot) == 0);
	return likely(
	    rseq_push_chunk(&alloc_fast.place, header_offset, p, x) == RSEQ_OK);
}

/*
 * Frees a block of this size, which is at most SIZE_SMALL.  Returns false if
 * the caller must take the slow path.
 *
 * The header is that of the size's class, because the size is known before the
 * map's entry has been loaded.
 */
static inline __attribute__((always_inline)) bool
alloc_push_small(void *p, size_t size, uint64_t entry)
{
	size_t header_offset = size_class_small(size) * sizeof(struct cpu_hot);

	umem_assert(size <= SIZE_SMALL);
	return likely(page_map_header_offset(entry) == header_offset) &&
	       alloc_push_chunk(
		   p, header_offset, page_map_chunk_offset(p, entry));
}

/* Frees a block.  Returns false if the caller must take the slow path. */
static inline __attribute__((always_inline)) bool
alloc_free_fast(void *p)
{
	uint64_t entry;
	uint32_t x;

	if (!alloc_map_entry(p, &entry))
		return false;
	x = page_map_chunk_offset(p, entry);
	/*
	 * With x before the shift of entry, the compiler needs no copy of
	 * entry.
	 */
	__asm__("" : "+r"(entry), "+r"(x));
	return alloc_push_chunk(p, page_map_header_offset(entry), x);
}

static inline __attribute__((always_inline)) void
alloc_free(void *p)
{
	if (!alloc_free_fast(p))
		alloc_free_slow(p);
}

/*
 * Frees a block.  size must be the size that the program requested from
 * malloc() or realloc().  Returns false if the caller must take the slow path.
 */
static inline __attribute__((always_inline)) bool
alloc_free_sized_fast(void *p, size_t size)
{
	uint64_t entry;

	return alloc_map_entry(p, &entry) && likely(size <= SIZE_SMALL) &&
	       alloc_push_small(p, size, entry);
}

#endif
