/* stack.h - return addresses of the calling thread; see stack.c */
#ifndef UMEM_STACK_H
#define UMEM_STACK_H

#include "vmem/base.h"

/*
 * Addresses of functions of the library's first and last file and of some other
 * files; the last element is NULL.  init.c defines the table.
 */
extern hidden const void *const stack_landmarks[];

/*
 * Stores up to n return addresses, beginning with that of the program's call
 * into the library.  Returns their number.
 */
unsigned stack_trace(uintptr_t *pcs, unsigned n);

/* Is p in the part of the calling thread's own stack that is in use? */
bool stack_contains(const void *p);

/* Does the calling thread run a signal handler? */
bool stack_in_signal(void);

/*
 * Returns the kernel's number of the calling thread, mostly without a system
 * call.
 */
uint64_t stack_thread(void);

/* Called in the child of fork(), where the thread has a new number. */
void stack_after_fork(void);

#endif
