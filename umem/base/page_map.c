/*
 * page_map.c - address to size class and to slab or large block
 *
 * free(p) knows only the address p.  Two flat tables, indexed by the unit (64
 * KiB) of the heap's reserved range, lead from p to its block: the fast path
 * reads the table entry, the slow path reads the table owner.
 *
 * entry
 *	bits 0-31	phase: the distance from the start of a chunk to the
 *			start of the unit, minus the address of the unit, modulo
 *			2^32
 *	bits 32-63	the number of the cache of the slab that contains the
 *			unit (size_class.h), or PAGE_MAP_LARGE for the first
 *			unit of a large block, or 0; multiplied by the bytes of
 *			a header, the product that free() needs
 *
 *	The low 32 bits of (p + entry) are therefore the distance from the start
 *	of a chunk to p, without a mask for the offset in the unit.  That is a
 *	multiple of the chunk size exactly where a chunk starts, for every
 *	colour and every number of units of the slab.  The distance is below 128
 *	KiB.  A multiplication by the rounded-up inverse tells multiples from
 *	other numbers: for x = q * chunk + r, x * magic modulo 2^32 is r * magic
 *	+ q * e, with e = magic * chunk - 2^32 < chunk.  That is below bound =
 *	qmax * e + 1 for r = 0 and not below it for r > 0 as long as bound <=
 *	magic.  page_map_set_divisor() checks this condition for each class.
 *	Where it does not hold, bound is 2^32 - 1 and magic is 0, so every
 *	address passes and the slab checks it.
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
 * Before they are committed, the tables read as zeros and take no memory.
 *
 * Source of the test: Lemire, Kaser and Kurz, "Faster remainder by direct
 * computation", 2019.
 */
#include "umem/base/page_map.h"
#include "vmem/account.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Units that are committed at once in both tables: 256 MiB of heap. */
#define STRIDE 4096

struct page_map page_map;

/* The heap has one byte for each unit, and one with several nodes. */
_Static_assert(sizeof(page_map.entry[0]) + sizeof(page_map.owner[0]) + 2 <=
		   HEAP_UNIT_TABLES,
    "as heap.h says");

struct lock page_map_lock = LOCK_INITIALIZER(LOCK_HEAP);
static uint8_t *committed; /* [a] one byte per STRIDE units */

void
page_map_set_divisor(unsigned class, size_t chunk)
{
	umem_assert(class < array_size(page_map.divisor) && chunk != 0);

	struct cpu_guard *test = &page_map.divisor[class];
	/*
	 * A unit has at most one start; the phase leads to that of the next
	 * unit.
	 */
	uint64_t divisor = chunk < HEAP_UNIT ? chunk : HEAP_UNIT;
	uint64_t magic = (((uint64_t)1 << 32) + divisor - 1) / divisor;
	uint64_t e = magic * divisor - ((uint64_t)1 << 32);
	uint64_t qmax = (HEAP_UNIT + divisor) / divisor;

	*test = CPU_GUARD_NONE;
	if (qmax * e + 1 > magic)
		return;
	test->magic = (uint32_t)magic;
	test->bound = (uint32_t)(qmax * e + 1);
}

static void *
table_reserve(size_t bytes)
{
	void *at = os_reserve_zeros(align_up(bytes, os_page_size()));

	if (at != NULL)
		os_name(at, align_up(bytes, os_page_size()), "umem map");
	return at;
}

bool
page_map_start(void)
{
	size_t units = align_up(heap_window.units, STRIDE);

	/* Tables that an earlier, failed call reserved are kept. */
	if (page_map.entry == NULL)
		page_map.entry =
		    table_reserve(units * sizeof(page_map.entry[0]));
	if (page_map.owner == NULL)
		page_map.owner =
		    table_reserve(units * sizeof(page_map.owner[0]));
	if (committed == NULL)
		committed = meta_alloc(units / STRIDE);
	if (page_map.entry == NULL || page_map.owner == NULL ||
	    committed == NULL)
		return false;
	for (unsigned c = 1; c <= size_classes.n; c++)
		page_map_set_divisor(c, size_classes.bytes[c]);
	/* A large block starts at the start of its unit. */
	page_map_set_divisor(PAGE_MAP_LARGE, HEAP_UNIT);
	page_map.base = heap_window.base;
	/* Release: a thread that reads a non-zero units sees the tables. */
	store_release(&page_map.units, heap_window.units);
	return true;
}

static bool
stride_commit_locked(size_t i)
{
	lock_assert_held(&page_map_lock);

	size_t entry_bytes = STRIDE * sizeof(page_map.entry[0]);
	size_t owner_bytes = STRIDE * sizeof(page_map.owner[0]);

	if (committed[i])
		return true;
	if (!os_commit((char *)page_map.entry + i * entry_bytes, entry_bytes) ||
	    !os_commit((char *)page_map.owner + i * owner_bytes, owner_bytes))
		return false;
	/* Release: pairs with the load in page_map_commit(). */
	store_release(&committed[i], 1);
	account_add(&account.tables, entry_bytes + owner_bytes);
	return true;
}

bool
page_map_commit(void *span, size_t bytes)
{
	umem_assert(bytes != 0);
	umem_assert(page_map_unit((char *)span + bytes - 1) < page_map.units);

	size_t first = page_map_unit(span) / STRIDE;
	size_t last = page_map_unit((char *)span + bytes - 1) / STRIDE;

	for (size_t i = first; i <= last; i++) {
		bool done;

		if (likely(load_acquire(&committed[i])))
			continue;
		lock_take(&page_map_lock);
		done = stride_commit_locked(i);
		lock_release(&page_map_lock);
		if (!done)
			return false;
	}
	return true;
}

/* The entry of a unit that begins past bytes behind the start of a chunk. */
static uint64_t
entry_of(unsigned number, size_t unit, size_t past)
{
	uintptr_t at = page_map.base + (unit << HEAP_UNIT_SHIFT);

	umem_assert(past <= HEAP_UNIT);
	return (uint64_t)number * sizeof(struct cpu_hot) << 32 |
	       (uint32_t)(past - at);
}

/*
 * The entry for a unit of a slab in which a chunk starts next bytes behind the
 * start of the unit.
 */
static uint64_t
entry_of_unit(size_t unit, size_t next, unsigned number, size_t chunk)
{
	size_t past = next == 0 ? 0 : chunk - next;

	if (chunk >= HEAP_UNIT)
		past = HEAP_UNIT - next;
	return entry_of(number, unit, past);
}

/*
 * The bytes from the start of a unit to the next start of a chunk, where they
 * are next in the unit before.
 */
static size_t
next_start(size_t next, size_t chunk)
{
	if (next >= HEAP_UNIT)
		return next - HEAP_UNIT;
	return chunk - 1 - (HEAP_UNIT - next - 1) % chunk;
}

void
page_map_enter_slab(void *span, size_t bytes, unsigned number, size_t chunk,
    size_t first, void *slab)
{
	umem_assert((uintptr_t)span % HEAP_UNIT == 0 && bytes % HEAP_UNIT == 0);
	/* The class after the last is that of blocks of zero bytes. */
	umem_assert(
	    number % NODE_CLASSES <= size_classes.n + 1 && first < bytes);
	umem_assert(((uintptr_t)slab & 1) == 0); /* 1: a large block */

	size_t unit = page_map_unit(span);
	size_t end = unit + (bytes >> HEAP_UNIT_SHIFT), next = first % chunk;

	for (; unit < end; unit++) {
		umem_assert(
		    page_map.owner[unit] == NULL && page_map.entry[unit] == 0);
		store_release(&page_map.owner[unit], slab);
		/* The entry of a unit that is not in use is 0. */
		if (next < HEAP_UNIT && number != 0)
			store_release(&page_map.entry[unit],
			    entry_of_unit(unit, next, number, chunk));
		next = next_start(next, chunk);
	}
}

void
page_map_enter_large(void *block, size_t bytes)
{
	page_map_enter_sample(block, bytes, block, 0);
}

void
page_map_enter_sample(
    void *span, size_t bytes, const void *block, uint32_t index)
{
	umem_assert((uintptr_t)span % HEAP_UNIT == 0 && bytes % HEAP_UNIT == 0);
	umem_assert(bytes != 0 && index < PAGE_MAP_SAMPLES);
	umem_assert(page_map_unit(block) == page_map_unit(span));

	size_t unit = page_map_unit(span);
	/* That of the next unit; 0 if the block starts with the unit. */
	size_t past = -(uintptr_t)block % HEAP_UNIT;

	store_release(
	    &page_map.owner[unit], page_map_large_owner(bytes, index));
	store_release(
	    &page_map.entry[unit], entry_of(PAGE_MAP_LARGE, unit, past));
}

void
page_map_clear(void *span, size_t bytes)
{
	umem_assert((uintptr_t)span % HEAP_UNIT == 0 && bytes % HEAP_UNIT == 0);

	size_t unit = page_map_unit(span);
	size_t n = bytes >> HEAP_UNIT_SHIFT;

	for (size_t i = 0; i < n; i++) {
		store_relaxed(&page_map.entry[unit + i], 0);
		store_relaxed(&page_map.owner[unit + i], NULL);
	}
}

bool
page_map_check(
    const void *span, size_t bytes, unsigned number, const void *slab)
{
	size_t unit = page_map_unit(span);
	size_t n = bytes >> HEAP_UNIT_SHIFT;

	for (size_t i = 0; i < n; i++) {
		uint64_t entry = load_relaxed(&page_map.entry[unit + i]);

		if (page_map.owner[unit + i] != slab ||
		    (entry != 0 && page_map_number(entry) != number))
			return false;
	}
	return true;
}
