/* stack.h - return addresses of the calling thread; see stack.c */
#ifndef UMEM_STACK_H
#define UMEM_STACK_H

#include "vmem/base.h"

/*
 * Up to n return addresses, the program's caller of the library first.
 * Returns how many.
 */
unsigned stack_trace(uintptr_t *pcs, unsigned n);

/* Does the calling thread run a signal handler? */
bool stack_in_signal(void);

/* The kernel's number of the calling thread, without a system call mostly. */
uint64_t stack_thread(void);

/* In the child of a fork, whose number is another. */
void stack_after_fork(void);

#endif
