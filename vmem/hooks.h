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

#include "vmem/base.h"
#include "vmem/vmem.h"

struct quantum_hooks {
	/* A cache of bytes-sized pieces from arena; NULL: go without. */
	void *(*create)(
	    const char *name, size_t bytes, size_t quantum, vmem_t *arena);
	void (*destroy)(void *cache);
	void *(*alloc)(void *cache, int vmflag); /* NULL: none to be had */
	void (*free)(void *cache, void *piece);

	/*
	 * For a shortage, with the arena's gate closed: return every idle
	 * piece to its slab, and the slabs that are empty then to the arena;
	 * a piece of a slab, or NULL; cut the slabs that are partly used, so
	 * that their idle pieces become free segments.
	 */
	void (*drain)(void *cache);
	void *(*take)(void *cache);
	void (*dissolve)(void *cache);

	/*
	 * With the gate open: flush the object caches whose slabs come from
	 * the arena.  True if the request should be tried again.
	 */
	bool (*reclaim)(vmem_t *arena);
};

void quantum_register(const struct quantum_hooks *hooks);

/*
 * The gate of an arena is closed while pieces move between the magazines of
 * its quantum caches, their slabs and the arena's segments.  See quantum.c.
 * Opening it releases the spans that vmem_slab_free() and vmem_piece_free()
 * have left free as a whole.
 */
void vmem_gate_close(vmem_t *arena);
void vmem_gate_open(vmem_t *arena);

/*
 * A segment for a slab of a quantum cache.  Neither calls the source, because
 * the gate is closed.  vmem_slab_import(), with the gate open, fetches a span
 * for a slab of so many units; NULL: the source has none.  When the slab was
 * made, vmem_slab_import_end() releases the span if the slab does not use it.
 */
void *vmem_slab_alloc(vmem_t *arena, size_t size);
void vmem_slab_free(vmem_t *arena, void *slab, size_t size);
void *vmem_slab_import(vmem_t *arena, size_t size);
void vmem_slab_import_end(vmem_t *arena, void *span);

/*
 * Cut a slab into segments of chunk units, and free each segment whose bit is
 * set in free.  False: no memory for tags.
 */
bool vmem_slab_split(
    vmem_t *arena, void *slab, size_t chunk, const uint64_t *free);

/* Free a piece that lies in no slab; false: it is no allocated segment. */
bool vmem_piece_free(vmem_t *arena, void *piece, size_t size);

/*
 * Racy estimate of the free units of the arena.  SIZE_MAX if the arena has a
 * source and its last import did not fail.
 */
size_t vmem_free_about(const vmem_t *arena);

/* What the arena hands out is a multiple of this, and so aligned. */
size_t vmem_quantum(const vmem_t *arena);

/*
 * Does the release of a span of this arena call any function but vmem_free()
 * and own, which is the one that releases memory of the heap?
 */
bool vmem_calls_out(const vmem_t *arena, vmem_free_t *own);

/* Does the arena import from the source, or from one that does? */
bool vmem_is_below(const vmem_t *arena, const vmem_t *source);

/* Does the arena have a source? */
bool vmem_imports(const vmem_t *arena);

/* Allocation policy for arenas that are used without a policy flag. */
void vmem_set_default_policy(vmem_t *arena, int policy_flag);

/*
 * For the atfork handlers: the list of arenas with every gate, which is taken
 * before the locks of CPUs, depots and slabs; and every arena's lock.
 */
void vmem_gates_lock_for_fork(void);
void vmem_gates_unlock_for_fork(void);
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
