/*
 * meta.c - the metadata allocator: memory for the library's own structures
 *
 * Sizes are rounded up to a size class, four per doubling.  Each class has a
 * list of freed blocks.  If the list is empty, the block is cut from a pool:
 * 256 KiB that are mapped and never released to the kernel.  A freed block is
 * reused only for its own class, because the library has many structures of few
 * sizes.  A block of more than CLASS_MAX bytes has a dedicated mapping, which
 * meta_free() unmaps.
 *
 * When the kernel has no more memory, a higher layer may donate heap memory
 * (meta_is_exhausted(), meta_donate()).  Otherwise free, committed memory of
 * the heap would be unusable, because the library could not describe it.
 *
 * The first word of a freed block is its list link.  The block is cleared when
 * it is allocated again, so every block starts as zeros.
 *
 * Every mapping is on a list, so that tools can distinguish the library's
 * mappings from those of the program.  The record of a pool is at its start.
 * The record of a dedicated mapping is at the end of its last page, where
 * meta_free() finds it.
 *
 * Locking: one lock, a leaf.  It is held during the system calls, which are
 * rare because a pool provides hundreds of blocks.
 */
#include <string.h>

#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Large enough to make system calls rare, small enough for a tiny program. */
#define POOL_BYTES (256 * KIB)
#define CLASS_MAX  (64 * KIB)

/* Time after a refusal without system calls for best-effort blocks. */
#define REFUSAL_NS 100000000

/* Size classes: 16, 32, 48, 64, then four per doubling up to CLASS_MAX. */
#define NCLASSES (4 + 4 * 10)

/* One mapping: a pool or a dedicated mapping. */
struct meta_range {
	struct meta_range *next;
	void *at;
	size_t bytes;
	struct meta_range *prev; /* dedicated mappings only */
};

struct lock meta_lock = LOCK_INITIALIZER(LOCK_META);
static void *freed[NCLASSES];        /* [meta_lock] linked by first word */
static char *pool_next;              /* [meta_lock] rest of the current pool */
static char *pool_end;               /* [meta_lock] */
static struct meta_range *pools;     /* [meta_lock] */
static struct meta_range *dedicated; /* [meta_lock] dedicated mappings */
static uint64_t exhausted_ns; /* [meta_lock] when the last pool failed, or 0 */
static size_t used_bytes;     /* [meta_lock] */
static size_t mapped_bytes;   /* [meta_lock] */

/* The size class of a block, and the size of its blocks in *rounded. */
static unsigned
class_of(size_t bytes, size_t *rounded)
{
	if (bytes <= 64) {
		*rounded = align_up(bytes, 16);
		return (unsigned)(*rounded / 16 - 1);
	}
	unsigned bit = highbit(bytes - 1); /* 6 for 65 .. 128 */
	size_t gap = (size_t)1 << (bit - 2);

	*rounded = align_up(bytes, gap);
	return 4 + (bit - 6) * 4 +
	       (unsigned)((*rounded - ((size_t)1 << bit)) / gap) - 1;
}

static void *
meta_map_locked(size_t bytes)
{
	lock_assert_held(&meta_lock);

	void *at = os_map(bytes);

	if (at == NULL)
		return NULL;
	os_name(at, bytes, "umem meta");
	mapped_bytes += bytes;
	return at;
}

/*
 * Add a mapping to a list.  The list is valid at every moment, because an
 * inspector process may read it.
 */
static void
range_add_locked(
    struct meta_range **list, struct meta_range *range, void *at, size_t bytes)
{
	lock_assert_held(&meta_lock);
	range->next = *list;
	range->at = at;
	range->bytes = bytes;
	store_release(list, range);
}

/*
 * The start of the first pool gets its memory at once, because a process that
 * has allocated a block of each of three sizes has touched that much: 4 page
 * faults, 1.5 us each, for one call of 2.4 us (Intel Sapphire Rapids, KVM).
 */
#define POPULATED_BYTES (16 * KIB)

/* Map a pool; returns the address behind its record, or NULL. */
static char *
pool_map_locked(void)
{
	lock_assert_held(&meta_lock);

	char *at = meta_map_locked(POOL_BYTES);

	if (at == NULL)
		return NULL;
	if (pools == NULL)
		os_populate(at, POPULATED_BYTES);
	range_add_locked(&pools, (void *)at, at, POOL_BYTES);
	pool_end = at + POOL_BYTES;
	return at + align_up(sizeof(struct meta_range), CACHE_LINE);
}

/*
 * Cut a block from the current pool, or from a new one.  The rest of the old
 * pool, which is too small for the block, is lost: less than CLASS_MAX.
 */
static void *
block_cut_locked(size_t bytes)
{
	lock_assert_held(&meta_lock);
	/* Blocks of a cache line or more start on a cache line. */
	size_t align = bytes >= CACHE_LINE ? CACHE_LINE : 16;
	char *at = (char *)align_up((uintptr_t)pool_next, align);

	if (pool_next == NULL || at > pool_end ||
	    (size_t)(pool_end - at) < bytes) {
		at = pool_map_locked();
		exhausted_ns = at == NULL ? os_now_ns() : 0;
		if (at == NULL)
			return NULL;
	}
	pool_next = at + bytes;
	return at;
}

static void *
block_take_locked(unsigned class, size_t bytes)
{
	lock_assert_held(&meta_lock);

	void **block = freed[class];

	if (block == NULL)
		return block_cut_locked(bytes);
	freed[class] = *block;
	umem_assert((uintptr_t)block % 16 == 0);
	memset(block, 0, bytes);
	return block;
}

/*
 * Bytes of the dedicated mapping for a block and its record, or 0 if the size
 * overflows.
 */
static size_t
dedicated_bytes(size_t bytes)
{
	size_t both = bytes + sizeof(struct meta_range);

	/* The kernel refuses a mapping of 0 bytes, as it would an overflow. */
	return both < bytes ? 0 : align_up(both, os_page_size());
}

/* The record of a dedicated mapping. */
static struct meta_range *
dedicated_range(void *at, size_t mapped)
{
	return (struct meta_range *)(void *)((char *)at + mapped) - 1;
}

/* Create a dedicated mapping and record it. */
static void *
dedicated_map_locked(size_t mapped)
{
	lock_assert_held(&meta_lock);

	void *at = meta_map_locked(mapped);
	struct meta_range *range;

	if (at == NULL)
		return NULL;
	range = dedicated_range(at, mapped);
	range_add_locked(&dedicated, range, at, mapped);
	if (range->next != NULL)
		range->next->prev = range;
	return at;
}

static void
dedicated_unmap_locked(void *at, size_t mapped)
{
	lock_assert_held(&meta_lock);

	struct meta_range *range = dedicated_range(at, mapped);
	struct meta_range **link =
	    range->prev != NULL ? &range->prev->next : &dedicated;

	/* One store keeps the list valid for an inspector process. */
	store_release(link, range->next);
	if (range->next != NULL)
		range->next->prev = range->prev;
	if (os_unmap(at, mapped))
		mapped_bytes -= mapped;
}

/* Has the kernel refused a pool within the last REFUSAL_NS? */
static bool
meta_was_refused_locked(void)
{
	lock_assert_held(&meta_lock);
	return unlikely(exhausted_ns != 0) &&
	       os_now_ns() - exhausted_ns < REFUSAL_NS;
}

/*
 * Are the lists right?  Freed blocks are aligned, the records of the dedicated
 * mappings are at their ends and linked both ways, and the mappings on the
 * lists are not more than mapped_bytes.  *nvisited receives the number of
 * entries.
 */
static inline bool
meta_check_locked(size_t *nvisited)
{
	size_t mapped = 0;

	lock_assert_held(&meta_lock);
	*nvisited = 0;
	for (unsigned i = 0; i < NCLASSES; i++) {
		for (void **block = freed[i]; block != NULL; block = *block) {
			if ((uintptr_t)block % 16 != 0)
				return false;
			++*nvisited;
		}
	}
	for (struct meta_range *p = pools; p != NULL; p = p->next) {
		if (p->at != p)
			return false;
		mapped += p->bytes;
		++*nvisited;
	}
	for (struct meta_range *d = dedicated; d != NULL; d = d->next) {
		if (dedicated_range(d->at, d->bytes) != d ||
		    (d->next != NULL && d->next->prev != d))
			return false;
		mapped += d->bytes;
		++*nvisited;
	}
	return mapped <= mapped_bytes && pool_next <= pool_end;
}

/* Checks after as many changes as the last check has visited entries. */
static inline bool
meta_check_sampled_locked(void)
{
	static size_t nchanges, nentries;

	if (++nchanges < nentries)
		return true;
	nchanges = 0;
	return meta_check_locked(&nentries);
}

static void *
meta_alloc_block(size_t bytes, bool best_effort)
{
	size_t rounded = dedicated_bytes(bytes);
	void *block = NULL;

	lock_take(&meta_lock);
	if (bytes > CLASS_MAX) {
		block = dedicated_map_locked(rounded);
	} else {
		unsigned class = class_of(bytes, &rounded);

		if (!best_effort || freed[class] != NULL ||
		    !meta_was_refused_locked())
			block = block_take_locked(class, rounded);
	}
	if (block != NULL)
		used_bytes += rounded;
	umem_assert(meta_check_sampled_locked());
	lock_release(&meta_lock);
	return block;
}

void *
meta_alloc(size_t bytes)
{
	return meta_alloc_block(bytes, /* best_effort */ false);
}

void *
meta_alloc_best_effort(size_t bytes)
{
	return meta_alloc_block(bytes, /* best_effort */ true);
}

void
meta_free(void *block, size_t bytes)
{
	size_t rounded = dedicated_bytes(bytes);

	lock_take(&meta_lock);
	if (bytes > CLASS_MAX) {
		dedicated_unmap_locked(block, rounded);
	} else {
		unsigned class = class_of(bytes, &rounded);

		*(void **)block = freed[class];
		freed[class] = block;
	}
	umem_assert(used_bytes >= rounded);
	used_bytes -= rounded;
	umem_assert(meta_check_sampled_locked());
	lock_release(&meta_lock);
}

bool
meta_is_exhausted(void)
{
	return load_relaxed(&exhausted_ns) != 0;
}

void
meta_donate(void *at, size_t bytes)
{
	umem_assert((uintptr_t)at % CACHE_LINE == 0);
	memset(at, 0, bytes);
	lock_take(&meta_lock);
	pool_next = at;
	pool_end = pool_next + bytes;
	exhausted_ns = 0;
	account_add(&account.donated, bytes);
	lock_release(&meta_lock);
}

size_t
meta_used(void)
{
	return load_relaxed(&used_bytes);
}

size_t
meta_mapped(void)
{
	return load_relaxed(&mapped_bytes);
}

DESCRIBE(DESCRIBED_META);
