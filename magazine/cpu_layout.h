/*
 * cpu_layout.h - layout of the block of a CPU
 *
 * The block of a CPU contains the headers of all caches for this CPU.  A header
 * has two parts.  The hot parts, which the fast paths access, come first, two
 * in a cache line.  The cold parts, which only the slow paths access, follow.
 * The blocks of successive CPUs are CPU_BLOCK bytes apart.  Because a header of
 * zeros refuses every operation, a block is usable before anything is written
 * to it.
 *
 * Header 0 is never opened.  Its bottom refuses every operation, so that its
 * top can serve as the push counter of the block.  The counter is at the start
 * of a page, where few rounds of magazines are.  Otherwise loads of
 * rounds could wait for the store to the counter: a CPU treats a load as
 * dependent on an earlier store if the last 12 bits of their addresses are
 * equal.
 */
#ifndef MAGAZINE_CPU_LAYOUT_H
#define MAGAZINE_CPU_LAYOUT_H

#include "vmem/base.h"

struct magazine;

/*
 * The hot part of a header: the loaded magazine as the sections use it.
 *
 *	a pop requires	top > bottom (signed)
 *	a push requires	top < limit (unsigned)
 *
 * bottom is the address of the oldest round.  If a round is marked
 * (cpu_marks.h), bottom is the address behind it, so that its pop is refused.
 *
 * top is the address behind the newest round, or CPU_CLAIMED.  As a signed
 * number CPU_CLAIMED is less than every bottom; as an unsigned number it is
 * greater than every limit.  A header is closed if bottom is CPU_NO_BOTTOM and
 * limit is 0.  It then refuses every operation for any value of top.
 *
 * Keys: [owner] written only by the thread that owns the header (cpu.c)
 */
struct cpu_hot {
	uintptr_t top;    /* written by sections and by the owner */
	uintptr_t bottom; /* [owner] in loaded->round, or at its end */
	uintptr_t limit;  /* [owner] address of loaded->round[capacity] */
	/*
	 * Divisibility test of rseq_push_chunk(): an address x bytes above the
	 * start of its slab is the start of a chunk if x * magic < bound.
	 */
	uint32_t magic;
	uint32_t bound;
};

/*
 * Constants of the divisibility test, set when the header is allocated.
 * CPU_GUARD_NONE accepts every address.
 */
struct cpu_guard {
	uint32_t magic;
	uint32_t bound;
};

#define CPU_GUARD_NONE ((struct cpu_guard){0, UINT32_MAX})

/*
 * In header 0, the push counter: pushes on this CPU until one is forced into
 * the slow path.
 */
#define CPU_PUSHES_AT offsetof(struct cpu_hot, top)

#define CPU_CLAIMED   ((uintptr_t)INT64_MIN)
#define CPU_NO_BOTTOM ((uintptr_t)INT64_MAX)

/* Events for which the push counter forces a push into the slow path. */
enum counted_event {
	COUNTED_TICK,      /* cpu_ticked() returns true */
	COUNTED_CANDIDATE, /* cpu_take_candidate() */
	COUNTED_EVENTS
};

/*
 * The cold part of a header.  [owner] guards all members but owned; statistics
 * and hints are also read without ownership.
 */
struct cpu_cold {
	struct magazine *loaded;
	struct magazine *previous;
	uint32_t nloads;    /* magazines received from the depot or slabs */
	uint32_t nunloads;  /* magazines passed to the depot or slabs */
	uint32_t nbypassed; /* [a] operations that found the header owned */
	uint32_t moved_at_update; /* nloads + nunloads at the last update */
	uint32_t rounds;          /* capacity on this CPU; see sizes_rounds() */
	uint32_t owned;           /* [a] 1: a thread owns this header */
	/* Rounds in previous at the last cpu_release(); a hint for others. */
	uint32_t nprevious;
	union {
		struct {
			uint32_t refill;    /* rounds of the next refill */
			uint32_t nrefills;  /* loaded ones from the slabs */
			uint32_t nreceived; /* rounds loaded, modulo 2^32 */
			uint32_t received_at_update; /* nreceived then */
		};
		/* In header 0, which has no magazines; see cpu_pushes.c. */
		struct push_counter {
			uint32_t left[COUNTED_EVENTS]; /* [a] */
		} pushes;
	};
} __attribute__((aligned(CACHE_LINE)));

/* Headers in a block. */
#define CPU_HEADERS       512
/* Header 0 and this header of the first region are never opened. */
#define CPU_HEADER_CLOSED 127
#define CPU_COLD_AT       (CPU_HEADERS * sizeof(struct cpu_hot))
#define CPU_BLOCK_SHIFT   16
#define CPU_BLOCK         ((size_t)1 << CPU_BLOCK_SHIFT)

_Static_assert(sizeof(struct cpu_hot) == 32, "two headers a cache line");
_Static_assert(sizeof(struct cpu_cold) == CACHE_LINE, "one line each");
_Static_assert(CPU_COLD_AT + CPU_HEADERS * sizeof(struct cpu_cold) <= CPU_BLOCK,
    "a block holds both");

#endif
