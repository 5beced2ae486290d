/* ready.h - whether the library is started, and memory before that; see init.c */
#ifndef UMEM_READY_H
#define UMEM_READY_H

#include "vmem/base.h"

extern int umem_state; /* [a] of init.c: UMEM_READY when done */
#define UMEM_READY 2

/* Starts the library, once.  False: there is no memory for it. */
bool umem_start(void);

/* At the time of constructors.  False: not started, for want of a reason. */
bool umem_start_early(void);

/* Defined where the library has the names of malloc. */
extern const bool umem_is_malloc __attribute__((weak, visibility("hidden")));

/* Functions of the library's first and last file and of some others, to NULL. */
extern const void *const umem_landmarks[];

/* Start the library if need be.  False: it cannot start for want of memory. */
static inline bool
umem_ready(void)
{
	/* Acquire; pairs with the release in umem_start(). */
	return likely(__atomic_load_n(&umem_state, __ATOMIC_ACQUIRE) ==
		      UMEM_READY) ||
	       umem_start();
}

/*
 * Memory before our own relocation, for an IFUNC resolver of a library that
 * the loader relocates before us.  Never freed.
 */
bool boot_is_early(void);
void *boot_alloc(size_t size, size_t align);
bool boot_owns(const void *p);
size_t boot_usable(const void *p);

#endif
