/* addr_map.h - address to class and to slab or large block; see addr_map.c */
#ifndef UMEM_ADDR_MAP_H
#define UMEM_ADDR_MAP_H

#include "magazine/cpu_layout.h"
#include "umem/size_class.h"
#include "vmem/heap.h"

/* Class byte of the first unit of a block straight from the heap. */
#define ADDR_LARGE 255u

struct addr_map {
	uintptr_t base;  /* of the heap's slot */
	size_t units;    /* 0 before start: nothing is in the map */
	uint32_t *entry; /* [a] one a unit: see addr_map_at(), addr_map_x() */
	void **owner;    /* [a] one a unit: slab, or large block: see below */
	struct cpu_guard guard[256]; /* by class */
};

extern struct addr_map addr_map;

/* False: no address space for the tables. */
bool addr_map_start(void);

/*
 * Chunks of class c are of this many bytes: more than the class, if they are
 * debugged.  Before the first of them is made.
 */
void addr_map_divide(unsigned c, size_t chunk);

/* Make the tables writable for the units of [at, at + bytes). */
bool addr_map_cover(void *at, size_t bytes);

/*
 * A slab of chunks of class c (0: of a cache that malloc does not use), the
 * first chunk first bytes behind at.  The tables cover it.
 */
void addr_map_slab(
    void *at, size_t bytes, unsigned c, size_t chunk, size_t first, void *slab);
void addr_map_large(void *at, size_t bytes);

/* A large block that is sample number index, and starts in the unit at at. */
void addr_map_sample(void *at, size_t bytes, const void *start, uint32_t index);
void addr_map_clear(void *at, size_t bytes);

void addr_map_lock_for_fork(void);
void addr_map_unlock_for_fork(void);

/* Unit number, or a number of at least addr_map.units for foreign addresses. */
static inline size_t
addr_map_unit(const void *p)
{
	return ((uintptr_t)p - addr_map.base) >> HEAP_UNIT_SHIFT;
}

/* What addr_map_slab() or addr_map_large() said of the unit; NULL: nothing. */
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
 * The owner of a large block: its bytes, which are whole units; in the bits
 * below, the number of the sample that it is (0: none), and 1 in the lowest.
 */
#define ADDR_SAMPLES (HEAP_UNIT / 2)

/* The bytes of a large block, or 0 if the owner is a slab or nothing. */
static inline size_t
addr_map_large_bytes(void *owner)
{
	return (uintptr_t)owner & 1 ? align_down((uintptr_t)owner, HEAP_UNIT)
				    : 0;
}

/* Of the owner of a large block. */
static inline uint32_t
addr_map_sample_index(void *owner)
{
	return (uint32_t)((uintptr_t)owner % HEAP_UNIT / 2);
}

/* Where the header of an entry's class is, from header 0. */
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

/* How far p is behind some start of a chunk, in a unit with this entry. */
static inline uint32_t
addr_map_x(const void *p, uint32_t entry)
{
	return (uint16_t)(uintptr_t)p + (entry >> 16);
}

/* Is p, in a unit with this entry, where a chunk starts? */
static inline bool
addr_map_is_start(const void *p, uint32_t entry)
{
	struct cpu_guard guard = addr_map.guard[addr_map_class(entry)];

	return addr_map_x(p, entry) * guard.magic < guard.bound;
}

#endif
