/*
 * page_map.h - address to size class and to slab or large block; see page_map.c
 */
#ifndef UMEM_PAGE_MAP_H
#define UMEM_PAGE_MAP_H

#include "magazine/cpu_layout.h"
#include "umem/base/size_class.h"
#include "vmem/heap.h"
#include "vmem/lock.h"

/* The class stored for the first unit of a large block. */
#define PAGE_MAP_LARGE (NODE_CLASSES - 1)

_Static_assert(PAGE_MAP_LARGE == CPU_HEADER_CLOSED, "its frees are slow");
_Static_assert(NODES *NODE_CLASSES <= CPU_HEADERS, "a header for each number");

struct page_map {
	uintptr_t base; /* start of the heap's reserved range */
	size_t units;   /* 0 before start: the map has no entries */
	/* [a] per unit: page_map_header_offset(), page_map_chunk_offset() */
	uint64_t *entry;
	/*
	 * [a] Per unit: slab or large block, see below.  Read without a lock: a
	 * release store enters a slab when its description is complete, and the
	 * entry goes before the description is freed.  A thread that frees an
	 * address which it does not own can still find a description that is
	 * going; slab.c says how such a free is noticed.
	 */
	void **owner;
	struct cpu_guard divisor[NODE_CLASSES]; /* by class */
};

extern hidden struct page_map page_map;

/* Reserves the tables.  Returns false if there is no address space for them. */
bool page_map_start(void);

/*
 * Sets the divisibility test of a class to chunks of this many bytes.  Debugged
 * chunks are larger than their class.  The caller does this before it creates
 * the first chunk of the class.
 */
void page_map_set_divisor(unsigned class, size_t chunk);

/*
 * Commits the table entries for the units of [span, span + bytes).  Returns
 * false if there is no memory.
 */
bool page_map_commit(void *span, size_t bytes);

/*
 * Enters a slab of chunks of the cache with this number (size_class.h), or of
 * number 0 if malloc() does not use its cache.  The first chunk is first bytes
 * behind span.  The caller has called page_map_commit() for the span.
 */
void page_map_enter_slab(void *span, size_t bytes, unsigned number,
    size_t chunk, size_t first, void *slab);

/* Enters a large block that is not a sample. */
void page_map_enter_large(void *block, size_t bytes);

/*
 * Enters a large block that is the sample with number index.  The block starts
 * in the first unit of its span.
 */
void page_map_enter_sample(
    void *span, size_t bytes, const void *block, uint32_t index);

/* Removes the entries of all units of the span. */
void page_map_clear(void *span, size_t bytes);

/*
 * Do all units of the span lead to the slab, and to its number or to none?  The
 * caller ensures that the slab stays.
 */
bool page_map_check(
    const void *span, size_t bytes, unsigned number, const void *slab);

/* Guards the commits of the tables; for the atfork handlers. */
extern hidden struct lock page_map_lock;

/*
 * The unit number of p, or a number of at least page_map.units if p is outside
 * the heap.
 */
static inline size_t
page_map_unit(const void *p)
{
	return ((uintptr_t)p - page_map.base) >> HEAP_UNIT_SHIFT;
}

/*
 * The owner of the unit of p, as entered by page_map_enter_slab() or
 * page_map_enter_sample(); NULL if the unit has none.
 */
static inline void *
page_map_owner(const void *p)
{
	size_t unit = page_map_unit(p);

	if (unlikely(unit >= page_map.units))
		return NULL;
	/* Acquire; pairs with the release in page_map_enter_slab(). */
	return load_acquire(&page_map.owner[unit]);
}

/*
 * The owner word of a large block has its size in bytes, which is a multiple of
 * the unit and below 2^PAGE_MAP_SIZE_BITS, as every address of a program.  The
 * bits around it hold the index of its sample (0: not a sample): the low bits
 * of the index are below the size, behind a 1 in the lowest bit, and its high
 * bits are above the size.
 */
#define PAGE_MAP_SIZE_BITS 48
#define PAGE_MAP_LOW_INDEX (HEAP_UNIT / 2)
#define PAGE_MAP_SAMPLES   (8 * PAGE_MAP_LOW_INDEX)

static inline void *
page_map_large_owner(size_t bytes, uint32_t index)
{
	uintptr_t high = index / PAGE_MAP_LOW_INDEX;

	return (void *)(high << PAGE_MAP_SIZE_BITS | bytes |
			index % PAGE_MAP_LOW_INDEX * 2 | 1);
}

/* The bytes of a large block, or 0 if the owner is a slab or NULL. */
static inline size_t
page_map_large_bytes(void *owner)
{
	uintptr_t bits = (uintptr_t)owner;

	return bits & 1 ? align_down(
			      bits & (((uintptr_t)1 << PAGE_MAP_SIZE_BITS) - 1),
			      HEAP_UNIT)
			: 0;
}

/* The sample index in the owner word of a large block. */
static inline uint32_t
page_map_sample_index(void *owner)
{
	uintptr_t bits = (uintptr_t)owner;

	return (uint32_t)(bits % HEAP_UNIT / 2 +
			  (bits >> PAGE_MAP_SIZE_BITS) * PAGE_MAP_LOW_INDEX);
}

/* The index of the sample that has the unit of p, or 0. */
static inline uint32_t
page_map_sample_at(const void *p)
{
	void *owner = page_map_owner(p);

	return page_map_large_bytes(owner) == 0 ? 0
						: page_map_sample_index(owner);
}

/* The offset of the per-CPU header of an entry from header 0, in bytes. */
static inline uintptr_t
page_map_header_offset(uint64_t entry)
{
	return entry >> 32;
}

static inline unsigned
page_map_number(uint64_t entry)
{
	return (
	    unsigned)(page_map_header_offset(entry) / sizeof(struct cpu_hot));
}

static inline unsigned
page_map_class(uint64_t entry)
{
	return page_map_number(entry) % NODE_CLASSES;
}

/*
 * The distance in bytes from some start of a chunk to p, where p lies in a unit
 * with this entry.
 */
static inline uint32_t
page_map_chunk_offset(const void *p, uint64_t entry)
{
	return (uint32_t)((uintptr_t)p + entry);
}

/* Is p, in a unit with this entry, the start of a chunk? */
static inline bool
page_map_is_start(const void *p, uint64_t entry)
{
	struct cpu_guard test = page_map.divisor[page_map_class(entry)];

	return page_map_chunk_offset(p, entry) * test.magic < test.bound;
}

#endif
