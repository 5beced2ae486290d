/*
 * cpu_inner.h - declarations that the files of headers share; see cpu.c
 *
 * cpu_region.c has the memory of the headers, cpu_drain.c empties the headers
 * of other CPUs, cpu_pushes.c counts pushes, cpu_fork.c waits for owners.
 */
#ifndef MAGAZINE_CPU_INNER_H
#define MAGAZINE_CPU_INNER_H

#include "magazine/cpu.h"
#include "magazine/depot.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

/*
 * A region; never freed.  The blocks of all regions but the first start at a
 * multiple of CPU_BLOCK, and the word before them points to the region.
 *
 * Keys: [lock] cpu_regions_lock, [a] atomic
 */
struct region {
	char *blocks;
	uint8_t *committed; /* [a] 1: the block of this CPU has memory */
	uint64_t taken[CPU_HEADERS / 64];    /* [lock] read without lock */
	struct cpu_guard guard[CPU_HEADERS]; /* [lock] */
	struct region *next;
	unsigned nfree; /* [lock] headers not taken */
};

/* [lock] The list of regions; read without the lock. */
extern hidden struct region *cpu_regions;
extern hidden struct lock cpu_regions_lock; /* rank LOCK_REGION */

static inline struct cpu_hot *
header_hot(struct region *region, unsigned i)
{
	return (struct cpu_hot *)region->blocks + i;
}

static inline struct cpu_cold *
header_cold(struct region *region, unsigned i)
{
	return (struct cpu_cold *)(region->blocks + CPU_COLD_AT) + i;
}

/* The hot part of a CPU's header, given that of CPU 0. */
static inline struct cpu_hot *
hot_of(struct cpu_hot *hot, unsigned cpu)
{
	return (void *)((char *)hot + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

/* The cold part of a CPU's header, given that of CPU 0. */
static inline struct cpu_cold *
cold_of(struct cpu_cold *cold, unsigned cpu)
{
	return (void *)((char *)cold + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

/* The region of a header. */
struct region *region_of(struct cpu_hot *hot);

/* Commit a CPU's block if it has no memory; false if there is none. */
bool block_commit(struct region *region, unsigned cpu);

/* False for the negative cpu_id of a thread that is not registered. */
static inline bool
is_cpu(unsigned cpu)
{
	return cpu < cpu_layer.nslots;
}

/*
 * Is the header in the first region, and the block of this CPU committed?
 * Reads the block itself, which avoids a cache miss on the struct region.
 */
static inline bool
is_committed(const struct cpu_hot *hot, unsigned cpu)
{
	struct cpu_hot *none = (void *)cpu_layer.blocks;

	/* Acquire; pairs with the release in cpu_pushes_start(). */
	return (uintptr_t)hot - (uintptr_t)none < CPU_BLOCK &&
	       load_acquire(&hot_of(none, cpu)->bottom) != 0;
}

/* Start the push counter of a CPU, whose block has just got memory. */
void cpu_pushes_start(struct cpu_hot *none);

extern hidden uint32_t cpu_fork_gate; /* [a] 1: a fork() is in progress */

/* Release ownership. */
static inline void
owned_end(struct cpu_cold *c)
{
	store_release(&c->owned, 0);
}

/*
 * Try to acquire ownership.  The first test of the gate only avoids a store to
 * a page that fork() may be copying.
 */
static inline bool
owned_try(struct cpu_cold *c)
{
	uint32_t no = 0;

	/* Acquire; pairs with the release in owned_end(). */
	if (unlikely(load_relaxed(&cpu_fork_gate) != 0) ||
	    !__atomic_compare_exchange_n(
		&c->owned, &no, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	if (likely(__atomic_load_n(&cpu_fork_gate, __ATOMIC_SEQ_CST) == 0))
		return true;
	owned_end(c);
	return false;
}

/*
 * Wait for an owner: the first 100 times by spinning, then by sleeping for 50
 * us each, because an owner wakes no waiter.
 */
static inline void
owned_pause(struct cpu_cold *c, unsigned nth)
{
	cpu_relax();
	if (nth > 100)
		os_futex_wait(&c->owned, 1, 50000);
}

/* Number of rounds in the loaded magazine, given its top. */
static inline unsigned
rounds_below(const struct cpu_cold *cold, uintptr_t top)
{
	if (cold->loaded == NULL)
		return 0;
	return (
	    unsigned)((top - (uintptr_t)cold->loaded->round) / sizeof(void *));
}

/* Make the header refuse every operation. */
static inline void
close_header(struct cpu_hot *h)
{
	/*
	 * Relaxed stores: in case (a) top is CPU_CLAIMED, and in case (b) the
	 * membarrier orders them.  They are atomic because sections may read
	 * the words at the same time.
	 */
	store_relaxed(&h->bottom, CPU_NO_BOTTOM);
	store_relaxed(&h->limit, 0);
}

/*
 * Set bottom and limit to those of a magazine, of which the round below nmarked
 * is marked; 0: none.
 */
static inline void
open_header(struct cpu_hot *h, struct magazine *loaded, unsigned nmarked)
{
	store_relaxed(&h->bottom, (uintptr_t)(loaded->round + nmarked));
	store_relaxed(&h->limit, (uintptr_t)(loaded->round + loaded->capacity));
	loaded->next = loaded;
}

/* Store the hint of cpu_seems_empty(). */
static inline void
nprevious_set(struct cpu_cold *c)
{
	uint32_t n = c->previous == NULL ? 0 : c->previous->nrounds;

	umem_assert(c->previous == NULL || n <= c->previous->capacity);
	store_relaxed(&c->nprevious, n);
}

#endif
