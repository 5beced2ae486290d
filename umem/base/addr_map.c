/*
 * addr_map.c - address to size class and to slab or large block
 *
 * free(p) knows only the address p.  Two flat tables, indexed by the unit (64
 * KiB) of the heap's reserved range, lead from p to its block: the fast path
 * reads the table entry, the slow path reads the table owner.
 *
 * entry
 *	bits 0-15	the size class of the slab that contains the unit, or
 *			ADDR_LARGE for the first unit of a large block, or 0;
 *			multiplied by the bytes of a header, the product that
 *			free() needs
 *	bits 16-31	phase: the distance from the start of a chunk to the
 *			start of the unit
 *
 *	So (offset in unit + phase) is a multiple of the chunk size exactly
 *	where a chunk starts, for every colour and every number of units of the
 *	slab.  A multiplication by the rounded-up inverse tells multiples from
 *	other numbers: for x = q * chunk + r, x * magic modulo 2^32 is r * magic
 *	+ q * e, with e = magic * chunk - 2^32 < chunk.  That is below bound =
 *	qmax * e + 1 for r = 0 and not below it for r > 0 as long as bound <=
 *	magic.  addr_map_divide() checks this condition for each class.  Where
 *	it does not hold, bound is 2^32 - 1 and magic is 0, so every address
 *	passes and the slab checks it.
 *
 *	A class of 64 KiB or more has at most one start in a unit, and a phase
 *	that makes the distance to it a multiple of the unit.
 *
 *	A large block starts at the start of its unit, except a sample, whose
 *	phase leads from its start to the start of the next unit.
 *
 *	The entry is 0 for a unit inside a single-chunk slab or a large block
 *	where no chunk starts, as for a unit that is not in use.
 *
 * Writers
 *	A thread that writes entries owns the span: it has just allocated the
 *	span or is about to free it.  So no two threads write one entry.  A
 *	reader whose pointer is to an allocated block received that pointer
 *	through a release by the allocating thread.  A reader with a stray
 *	pointer may see any state of the entry, and each state has a safe
 *	answer.
 *
 * Before they are covered, the tables read as zeros and take no memory.
 *
 * Source of the test: Lemire, Kaser and Kurz, "Faster remainder by direct
 * computation", 2019.
 */
#include "umem/base/addr_map.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Units that are committed at once in both tables: 256 MiB of heap. */
#define STRIDE 4096

struct addr_map addr_map;

/* The heap has one more byte for each unit. */
_Static_assert(sizeof(addr_map.entry[0]) + sizeof(addr_map.owner[0]) + 1 <=
		   HEAP_UNIT_TABLES,
    "as heap.h says");

static struct lock cover_lock = LOCK_INITIALIZER(LOCK_HEAP);
static uint8_t *covered; /* [a] one byte per STRIDE units */

void
addr_map_divide(unsigned c, size_t chunk)
{
	struct cpu_guard *d = &addr_map.guard[c];
	/*
	 * A unit has at most one start; the phase leads to that of the next
	 * unit.
	 */
	uint64_t divisor = chunk < HEAP_UNIT ? chunk : HEAP_UNIT;
	uint64_t magic = (((uint64_t)1 << 32) + divisor - 1) / divisor;
	uint64_t e = magic * divisor - ((uint64_t)1 << 32);
	uint64_t qmax = (HEAP_UNIT + divisor) / divisor;

	*d = CPU_GUARD_NONE;
	if (qmax * e + 1 > magic)
		return;
	d->magic = (uint32_t)magic;
	d->bound = (uint32_t)(qmax * e + 1);
}

static void *
table(size_t bytes)
{
	void *at = os_reserve_zeros(align_up(bytes, os_page_size()));

	if (at != NULL)
		os_name(at, align_up(bytes, os_page_size()), "umem map");
	return at;
}

bool
addr_map_start(void)
{
	struct addr_map *m = &addr_map;
	size_t units = align_up(heap_window.units, STRIDE);

	/* Tables that an earlier, failed call reserved are kept. */
	if (m->entry == NULL)
		m->entry = table(units * sizeof(m->entry[0]));
	if (m->owner == NULL)
		m->owner = table(units * sizeof(m->owner[0]));
	if (covered == NULL)
		covered = meta_alloc(units / STRIDE);
	if (m->entry == NULL || m->owner == NULL || covered == NULL)
		return false;
	for (unsigned c = 1; c <= size_classes.n; c++)
		addr_map_divide(c, size_classes.bytes[c]);
	/* A large block starts at the start of its unit. */
	addr_map_divide(ADDR_LARGE, HEAP_UNIT);
	m->base = heap_window.base;
	/* Release: a thread that reads a non-zero units sees the tables. */
	__atomic_store_n(&m->units, heap_window.units, __ATOMIC_RELEASE);
	return true;
}

static bool
cover_stride_locked(size_t i)
{
	size_t entry_bytes = STRIDE * sizeof(addr_map.entry[0]);
	size_t owner_bytes = STRIDE * sizeof(addr_map.owner[0]);

	if (covered[i])
		return true;
	if (!os_commit((char *)addr_map.entry + i * entry_bytes, entry_bytes) ||
	    !os_commit((char *)addr_map.owner + i * owner_bytes, owner_bytes))
		return false;
	/* Release: pairs with the load in addr_map_cover(). */
	__atomic_store_n(&covered[i], 1, __ATOMIC_RELEASE);
	return true;
}

bool
addr_map_cover(void *at, size_t bytes)
{
	size_t first = addr_map_unit(at) / STRIDE;
	size_t last = addr_map_unit((char *)at + bytes - 1) / STRIDE;

	for (size_t i = first; i <= last; i++) {
		bool done;

		if (likely(__atomic_load_n(&covered[i], __ATOMIC_ACQUIRE)))
			continue;
		lock_take(&cover_lock);
		done = cover_stride_locked(i);
		lock_release(&cover_lock);
		if (!done)
			return false;
	}
	return true;
}

static uint32_t
entry_class(unsigned c)
{
	_Static_assert(ADDR_LARGE * sizeof(struct cpu_hot) <= UINT16_MAX,
	    "16 bits of an entry");
	return c * (uint32_t)sizeof(struct cpu_hot);
}

/* The entry for the unit that begins start bytes into the span. */
static uint32_t
entry_of(size_t start, unsigned c, size_t chunk, size_t first)
{
	size_t past = start >= first ? (start - first) % chunk
				     : chunk - (first - start) % chunk;
	size_t next = past == 0 ? 0 : chunk - past;

	if (c == 0 || next >= HEAP_UNIT)
		return 0;
	if (chunk >= HEAP_UNIT)
		past = HEAP_UNIT - next;
	return entry_class(c) | (uint32_t)(past << 16);
}

void
addr_map_slab(
    void *at, size_t bytes, unsigned c, size_t chunk, size_t first, void *slab)
{
	size_t unit = addr_map_unit(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;

	for (size_t i = 0; i < n; i++) {
		__atomic_store_n(
		    &addr_map.owner[unit + i], slab, __ATOMIC_RELEASE);
		__atomic_store_n(&addr_map.entry[unit + i],
		    entry_of(i << HEAP_UNIT_SHIFT, c, chunk, first),
		    __ATOMIC_RELEASE);
	}
}

void
addr_map_large(void *at, size_t bytes)
{
	addr_map_sample(at, bytes, at, 0);
}

void
addr_map_sample(void *at, size_t bytes, const void *start, uint32_t index)
{
	size_t unit = addr_map_unit(at);
	uint16_t phase = (uint16_t) - (uintptr_t)start;

	__atomic_store_n(&addr_map.owner[unit], (void *)(bytes | index * 2 | 1),
	    __ATOMIC_RELEASE);
	__atomic_store_n(&addr_map.entry[unit],
	    entry_class(ADDR_LARGE) | (uint32_t)phase << 16, __ATOMIC_RELEASE);
}

void
addr_map_clear(void *at, size_t bytes)
{
	size_t unit = addr_map_unit(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;

	for (size_t i = 0; i < n; i++) {
		__atomic_store_n(
		    &addr_map.entry[unit + i], 0, __ATOMIC_RELAXED);
		__atomic_store_n(
		    &addr_map.owner[unit + i], NULL, __ATOMIC_RELAXED);
	}
}

void
addr_map_lock_for_fork(void)
{
	lock_take_for_fork(&cover_lock);
}

void
addr_map_unlock_for_fork(void)
{
	lock_release_for_fork(&cover_lock);
}
