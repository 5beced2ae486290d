/*
 * addr_map.h - address to size class and to slab or large block; see addr_map.c
 */
#ifndef UMEM_ADDR_MAP_H
#define UMEM_ADDR_MAP_H

#include "magazine/cpu_layout.h"
#include "umem/base/size_class.h"
#include "vmem/heap.h"

/* The class stored for the first unit of a large block. */
#define ADDR_LARGE 255u

struct addr_map {
	uintptr_t base;  /* start of the heap's reserved range */
	size_t units;    /* 0 before start: the map has no entries */
	uint32_t *entry; /* [a] per unit: see addr_map_at(), addr_map_x() */
	void **owner;    /* [a] per unit: slab or large block, see below */
	struct cpu_guard guard[256]; /* by class */
};

extern struct addr_map addr_map;

/* Reserves the tables.  Returns false if there is no address space for them. */
bool addr_map_start(void);

/*
 * Sets the divisibility test of class c to chunks of this many bytes.  Debugged
 * chunks are larger than their class.  The caller does this before it creates
 * the first chunk of the class.
 */
void addr_map_divide(unsigned c, size_t chunk);

/*
 * Commits the table entries for the units of [at, at + bytes).  Returns false
 * if there is no memory.
 */
bool addr_map_cover(void *at, size_t bytes);

/*
 * Enters a slab of chunks of class c, or of class 0 if malloc() does not use
 * its cache.  The first chunk is first bytes behind at.  The caller has called
 * addr_map_cover() for the span.
 */
void addr_map_slab(
    void *at, size_t bytes, unsigned c, size_t chunk, size_t first, void *slab);

/* Enters a large block that starts at at and is not a sample. */
void addr_map_large(void *at, size_t bytes);

/*
 * Enters a large block that is the sample with number index.  The block starts
 * at start, which lies in the unit at at.
 */
void addr_map_sample(void *at, size_t bytes, const void *start, uint32_t index);

/* Removes the entries of all units of the span. */
void addr_map_clear(void *at, size_t bytes);

void addr_map_lock_for_fork(void);
void addr_map_unlock_for_fork(void);

/*
 * The unit number of p, or a number of at least addr_map.units if p is outside
 * the heap.
 */
static inline size_t
addr_map_unit(const void *p)
{
	return ((uintptr_t)p - addr_map.base) >> HEAP_UNIT_SHIFT;
}

/*
 * The owner of the unit of p, as entered by addr_map_slab() or
 * addr_map_sample(); NULL if the unit has none.
 */
static inline void *
addr_map_owner(const void *p)
{
	size_t unit = addr_map_unit(p);

	if (unlikely(unit >= addr_map.units))
		return NULL;
	/* Acquire; pairs with the release in addr_map_slab(). */
	return __atomic_load_n(&addr_map.owner[unit], __ATOMIC_ACQUIRE);
}

/*
 * The owner word of a large block has its size in bytes, which is a multiple of
 * the unit.  The bits below that hold the index of its sample (0: not a
 * sample), shifted left by one, and a 1 in the lowest bit.
 */
#define ADDR_SAMPLES (HEAP_UNIT / 2)

/* The bytes of a large block, or 0 if the owner is a slab or NULL. */
static inline size_t
addr_map_large_bytes(void *owner)
{
	return (uintptr_t)owner & 1 ? align_down((uintptr_t)owner, HEAP_UNIT)
				    : 0;
}

/* The sample index in the owner word of a large block. */
static inline uint32_t
addr_map_sample_index(void *owner)
{
	return (uint32_t)((uintptr_t)owner % HEAP_UNIT / 2);
}

/*
 * The offset of the per-CPU header of an entry's class from header 0, in bytes.
 */
static inline uintptr_t
addr_map_at(uint32_t entry)
{
	return (uint16_t)entry;
}

static inline unsigned
addr_map_class(uint32_t entry)
{
	return (unsigned)(addr_map_at(entry) / sizeof(struct cpu_hot));
}

/*
 * The distance in bytes from some start of a chunk to p, where p lies in a unit
 * with this entry.
 */
static inline uint32_t
addr_map_x(const void *p, uint32_t entry)
{
	return (uint16_t)(uintptr_t)p + (entry >> 16);
}

/* Is p, in a unit with this entry, the start of a chunk? */
static inline bool
addr_map_is_start(const void *p, uint32_t entry)
{
	struct cpu_guard guard = addr_map.guard[addr_map_class(entry)];

	return addr_map_x(p, entry) * guard.magic < guard.bound;
}

#endif
