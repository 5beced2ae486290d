/* sample_stack.h - the distinct stacks of samples; see sample_stack.c */
#ifndef UMEM_SAMPLE_STACK_H
#define UMEM_SAMPLE_STACK_H

#include "vmem/lock.h"

/*
 * Frames of a stack, at most.  tcmalloc has as many, and a program with fewer
 * frames pays for those that it has.
 */
#define SAMPLE_FRAMES 64

/*
 * Not 0: the sums and the peak begin anew with the next sample.  The command
 * umem sets it, too.
 */
extern hidden uint64_t sample_sums_reset; /* [a] */

/* An estimate from samples.  Blocks are in parts of SAMPLE_BLOCK_PARTS. */
struct sample_sum {
	uint64_t blocks, bytes;
};
#define SAMPLE_BLOCK_PARTS 256

/* Sums of the samples of a stack, since sample_sums_reset was set. */
struct sample_sums {
	struct sample_sum allocated;
	struct sample_sum freed; /* of these */
	/* Of those that were freed, such as lived less than a ms, and a s. */
	struct sample_sum lived_ms, lived_s;
	/* Live when all stacks had the most; see sample_stack.c. */
	struct sample_sum peak;
	uint64_t npeaks; /* peaks of all stacks that it knows */
};

/* A stack.  Keys: [I] immutable, [l] the lock of the table */
struct sample_stack {
	struct sample_stack *next; /* [l] in the bucket */
	uint64_t hash;             /* [I] */
	uint32_t nrefs;            /* [l] */
	uint32_t depth;            /* [I] return addresses */
	struct sample_sums sums;   /* [l] */
	uintptr_t pc[];            /* [I] that of the program's call first */
};

/*
 * Returns the stack of the calling thread, from its call into the library on,
 * with a reference; NULL: there is no memory.
 */
struct sample_stack *sample_stack_take(void);

/* Drops a reference; stack may be NULL. */
void sample_stack_drop(struct sample_stack *stack);

/* Adds a new sample of so many bytes, which stands for weight bytes. */
void sample_stack_allocated(
    struct sample_stack *stack, uint64_t bytes, uint64_t weight);

/* Counts the sample as freed after so many ns. */
void sample_stack_freed(
    struct sample_stack *stack, uint64_t bytes, uint64_t weight, uint64_t ns);

/* Returns the sum of the samples that are not freed. */
static inline struct sample_sum
sample_sums_live(const struct sample_sums *sums)
{
	return (struct sample_sum){sums->allocated.blocks - sums->freed.blocks,
	    sums->allocated.bytes - sums->freed.bytes};
}

static inline void
sample_sum_add(struct sample_sum *to, struct sample_sum sum)
{
	to->blocks += sum.blocks;
	to->bytes += sum.bytes;
}

/* Returns the nearest number of whole blocks. */
static inline uint64_t
sample_sum_blocks(struct sample_sum sum)
{
	return (sum.blocks + SAMPLE_BLOCK_PARTS / 2) / SAMPLE_BLOCK_PARTS;
}

/*
 * Calls visit for each stack, with the lock of the table held: visit must take
 * no lock and be short.
 */
void sample_stack_each(
    void (*visit)(const struct sample_stack *, void *arg), void *arg);

/* Stacks that are kept without a reference.  Tests make them fewer. */
extern hidden uint32_t sample_stacks_kept;

/* Guards the table and the sums; for the atfork handlers. */
extern hidden struct lock sample_stack_lock;

#endif
