/*
 * hooks.h - what the library asks of arenas beyond the public vmem.h
 *
 * Quantum caches are object caches, which live above arenas.  umem/ registers
 * this table once at start; it is the only pointer in the library that leads
 * upwards.  Until then, and for arenas made until then, vmem_alloc() goes to
 * the segments for every size.
 */
#ifndef VMEM_HOOKS_H
#define VMEM_HOOKS_H

#include "vmem/vmem.h"

struct quantum_hooks {
	/* A cache of bytes-sized pieces from arena; NULL: go without. */
	void *(*create)(
	    const char *name, size_t bytes, size_t quantum, vmem_t *arena);
	void (*destroy)(void *cache);
	void *(*alloc)(void *cache, int vmflag); /* NULL: none to be had */
	void (*free)(void *cache, void *piece);
};

void quantum_register(const struct quantum_hooks *hooks);

/* What the arena hands out is a multiple of this, and so aligned. */
size_t vmem_quantum(const vmem_t *arena);

/* Allocation policy for arenas that are used without a policy flag. */
void vmem_set_default_policy(vmem_t *arena, int policy_flag);

/* Every arena's lock, for the atfork handlers. */
void vmem_lock_for_fork(void);
void vmem_unlock_for_fork(void);

/* Rescale hash tables where due; called by the updater, no lock held. */
void vmem_update(void);

/*
 * Grow an allocated segment in place by taking from the free segment right
 * behind it.  False if that is not free, too small, or of another span.
 */
bool vmem_grow(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

/* Cut an allocated segment short and free what is behind. */
bool vmem_shrink(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

#endif
