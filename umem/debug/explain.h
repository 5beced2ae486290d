/* explain.h - parts of messages about misuse; see explain.c */
#ifndef UMEM_EXPLAIN_H
#define UMEM_EXPLAIN_H

#include "vmem/base.h"

/* Returns the name of the program's file. */
const char *explain_program(void);

/* Writes the program, its process, and the calling thread with its name. */
void explain_where(void);

/* Writes a line for each frame. */
void explain_frames(const uintptr_t *pcs, unsigned n);

/*
 * Writes who allocated or freed a block ("allocated", "freed"): the thread, the
 * time ago in ns, and the stack.
 */
void explain_stack(const char *what, uint64_t thread, uint64_t ago,
    const uintptr_t *stack, unsigned depth);

#endif
