/* ready.h - start-up state, and memory before the start; see ready.c */
#ifndef UMEM_READY_H
#define UMEM_READY_H

#include "vmem/base.h"

/* [a] UMEM_READY when started. */
extern hidden int umem_state;
#define UMEM_READY 2

/* The start; init.c defines the table. */
extern hidden const struct ready_start {
	/*
	 * The steps, up to NULL.  A step returns false if it has to be repeated
	 * for want of memory.
	 */
	bool (*const *steps)(void);
	/* Called once after the start; may allocate. */
	void (*started)(void);
	/* Returns whether a constructor starts the library. */
	bool (*is_early)(void);
} ready_start;

/*
 * Starts the library if it has not started.  Returns false if it cannot start
 * for want of memory, or is being started by the calling thread.
 */
bool umem_start(void);

/*
 * Starts the library from a constructor.  Returns false if it has not started,
 * also because the start can wait for the first allocation.
 */
bool umem_start_early(void);

/*
 * Starts the library if it has not started.  Returns false if it cannot start.
 */
static inline bool
umem_ready(void)
{
	/* Acquire; pairs with the release in umem_start(). */
	return likely(load_acquire(&umem_state) == UMEM_READY) || umem_start();
}

/*
 * Memory from a static block for calls that come before the library can start:
 * before the dynamic loader has relocated the library, from an IFUNC resolver
 * of a library that it relocates first, and from functions that the start
 * itself calls.  The block is never freed.  bootstrap_is_active() tells whether
 * the caller is in this situation.  bootstrap_usable() returns the bytes of a
 * block of bootstrap_alloc().
 */
bool bootstrap_is_active(void);
void *bootstrap_alloc(size_t size, size_t align);
bool bootstrap_owns(const void *p);
size_t bootstrap_usable(const void *p);

#endif
