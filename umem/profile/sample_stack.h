/* sample_stack.h - the distinct stacks of samples; see sample_stack.c */
#ifndef UMEM_SAMPLE_STACK_H
#define UMEM_SAMPLE_STACK_H

#include "vmem/base.h"

/*
 * Frames of a stack, at most.  tcmalloc has as many, and a program with fewer
 * frames pays for those that it has.
 */
#define SAMPLE_FRAMES 64

/* A stack.  Keys: [I] immutable, [a] atomic, [l] the lock of its bucket list */
struct sample_stack {
	struct sample_stack *next; /* [l] in the bucket */
	uint64_t hash;             /* [I] */
	uint32_t nrefs;            /* [a] 0 only with the lock */
	uint32_t depth;            /* [I] return addresses */
	uintptr_t pc[];            /* [I] that of the program's call first */
};

/*
 * Returns the stack of the calling thread, from its call into the library on,
 * with a reference; NULL: there is no memory.
 */
struct sample_stack *sample_stack_take(void);

/* Drops a reference; stack may be NULL. */
void sample_stack_drop(struct sample_stack *stack);

/* Returns the number of stacks. */
uint32_t sample_stack_count(void);

void sample_stack_lock_for_fork(void);
void sample_stack_unlock_for_fork(void);

#endif
