/*
 * cpu_layout.h - what lies where in the block of a CPU
 *
 * The headers of all caches for one CPU lie together in its block, the words
 * that the fast paths touch first, two headers a cache line, and what only
 * the slow paths need behind them.  Blocks of successive CPUs lie CPU_BLOCK
 * apart.  A header that is all zeros refuses every operation, so a block is
 * usable before anything was written to it.
 *
 * Header 0 is never opened: its bottom says so, and its top is free to be the
 * block's ticks.  They lie at the start of a page because the rounds of no
 * magazine do: a processor takes a load for dependent on a store before it if
 * the last 12 bits of their addresses are equal.
 */
#ifndef MAGAZINE_CPU_LAYOUT_H
#define MAGAZINE_CPU_LAYOUT_H

#include "vmem/base.h"

struct magazine;

/*
 * The loaded magazine as the sections see it.
 *
 *	pop needs	top > bottom (signed)
 *	push needs	top < limit (unsigned)
 *
 * top is the address behind the newest round, or CPU_CLAIMED, which is less
 * than every bottom when signed and more than every limit when unsigned.
 * A header is closed when bottom is CPU_NO_BOTTOM and limit is 0: it refuses
 * whatever top holds.
 */
struct cpu_hot {
	uintptr_t top;    /* written by sections and by the owner */
	uintptr_t bottom; /* [owner] of the loaded magazine's rounds */
	uintptr_t limit;  /* [owner] */
	/* x bytes into its slab is where a chunk starts: x * magic < bound. */
	uint32_t magic;
	uint32_t bound;
};

/* What a header is given at birth; CPU_GUARD_NONE lets everything pass. */
struct cpu_guard {
	uint32_t magic;
	uint32_t bound;
};

#define CPU_GUARD_NONE ((struct cpu_guard){0, UINT32_MAX})

/* In header 0: pushes that this CPU may do until one is refused. */
#define CPU_TICKS_AT offsetof(struct cpu_hot, top)

#define CPU_CLAIMED   ((uintptr_t)INT64_MIN)
#define CPU_NO_BOTTOM ((uintptr_t)INT64_MAX)

/* [owner] all of it; statistics are read without. */
struct cpu_cold {
	struct magazine *loaded;
	struct magazine *previous;
	uint32_t nloads;      /* magazines that came from the depot or slabs */
	uint32_t nunloads;    /* magazines that went there */
	uint32_t nbypassed;   /* operations that found the header owned */
	uint32_t underflowed; /* 1: the last exchange was for want of rounds */
	uint32_t moved_at_update; /* nloads + nunloads at the last update */
	uint32_t refill;          /* rounds to ask of the slabs next time */
	uint32_t owned;           /* [a] 1: somebody works on this header */
	uint32_t nfilled;         /* loaded magazines that a push found full */
	uint32_t ticks_left; /* [a] in header 0: beyond the word of ticks */
	uint32_t nchecks;    /* [a] in header 0: pushes checked so far */
	uint32_t padding[2];
};

#define CPU_HEADERS       512
/* This header of the first region and header 0 are never opened. */
#define CPU_HEADER_CLOSED 255
#define CPU_COLD_AT       (CPU_HEADERS * sizeof(struct cpu_hot))
#define CPU_BLOCK_SHIFT   16
#define CPU_BLOCK         ((size_t)1 << CPU_BLOCK_SHIFT)

_Static_assert(sizeof(struct cpu_hot) == 32, "two headers a cache line");
_Static_assert(sizeof(struct cpu_cold) == CACHE_LINE, "one line each");
_Static_assert(CPU_COLD_AT + CPU_HEADERS * sizeof(struct cpu_cold) <= CPU_BLOCK,
    "a block holds both");

#endif
