/*
 * hooks.h - internal functions of arenas, and the hooks of quantum caches
 *
 * Quantum caches are object caches, which belong to a layer above arenas.
 * umem/ registers a table of functions once at start.  The table is the only
 * pointer in the library from a lower layer to a higher one.  An arena that was
 * created before the registration has no quantum caches: segments serve all
 * its sizes.
 */
#ifndef VMEM_HOOKS_H
#define VMEM_HOOKS_H

#include "vmem/base.h"
#include "vmem/vmem.h"

struct quantum_hooks {
	/*
	 * Create a cache of pieces of the given size, with slabs from arena.
	 * NULL: there is no memory, so segments serve the size.
	 */
	void *(*create)(
	    const char *name, size_t bytes, size_t quantum, vmem_t *arena);
	void (*destroy)(void *cache);
	void *(*alloc)(void *cache, int vmflag); /* NULL: no piece */
	void (*free)(void *cache, void *piece);

	/*
	 * For a shortage, called with the arena's gate closed.
	 * drain	return every idle piece to its slab, and every empty
	 *		slab to the arena
	 * take		take a free piece from a slab; NULL: there is none
	 * dissolve	cut up the slabs that are partly used, so that their
	 *		free pieces become free segments
	 */
	void (*drain)(void *cache);
	void *(*take)(void *cache);
	void (*dissolve)(void *cache);

	/*
	 * Flush the object caches that take their slabs from the arena; called
	 * with the gate open.  Returns true if the request should be retried.
	 */
	bool (*reclaim)(vmem_t *arena);
};

/* Register the table for all arenas that are created from now on. */
void quantum_register(const struct quantum_hooks *hooks);

/*
 * The longest time, in ns, that a shortage waits for the end of a call of a
 * source that is in transit: the call may wait for a lock of the caller.
 */
#define TRANSIT_WAIT_NS 100000000

/*
 * The gate of an arena is a lock.  A thread closes the gate while it moves
 * pieces between the magazines of the arena's quantum caches, their slabs and
 * the arena's segments (quantum.c).  vmem_gate_open() releases the spans that
 * vmem_slab_free() and vmem_piece_free() have left entirely free.
 */
void vmem_gate_close(vmem_t *arena);
void vmem_gate_open(vmem_t *arena);

/*
 * Allocate and free a segment for a slab of a quantum cache.  The gate is
 * closed, so these functions do not call the source.
 */
void *vmem_slab_alloc(vmem_t *arena, size_t size);
void vmem_slab_free(vmem_t *arena, void *slab, size_t size);

/*
 * Import a span for a slab of the given size, with the gate open.  Returns the
 * start of the span, or NULL if the source has none.
 */
void *vmem_slab_import(vmem_t *arena, size_t size);

/*
 * End a vmem_slab_import(), after the slab has been created: release the span
 * if all of it is still free.
 */
void vmem_slab_import_end(vmem_t *arena, void *span);

/*
 * Cut a slab into segments of chunk units.  Segment i becomes free if bit i of
 * free is set, otherwise allocated.  Returns false if there is no memory for
 * tags.
 */
bool vmem_slab_split(
    vmem_t *arena, void *slab, size_t chunk, const uint64_t *free);

/* Free a piece that is in no slab; false if it is not an allocated segment. */
bool vmem_piece_free(vmem_t *arena, void *piece, size_t size);

/*
 * Racy estimate of the free units of the arena.  SIZE_MAX if the arena has a
 * source and its last import did not fail.
 */
size_t vmem_free_estimate(const vmem_t *arena);

/* Sizes and addresses of all segments are multiples of the quantum. */
size_t vmem_quantum(const vmem_t *arena);

/*
 * Can the release of a span of this arena call a function of the program?  True
 * if it calls any function but vmem_free() and own.  own is the function that
 * releases memory to the heap.
 */
bool vmem_release_calls_program(const vmem_t *arena, vmem_free_t *own);

/* Does the arena import from source, directly or through other arenas? */
bool vmem_imports_from(const vmem_t *arena, const vmem_t *source);

/* Does the arena have a source? */
bool vmem_has_source(const vmem_t *arena);

/*
 * For the atfork handlers: take and release the lock of the list of arenas and
 * every gate.  These are taken before the locks of CPUs, depots and slabs.
 */
void vmem_gates_lock_for_fork(void);
void vmem_gates_unlock_for_fork(void);

/* For the atfork handlers: take and release the lock of every arena. */
void vmem_lock_for_fork(void);
void vmem_unlock_for_fork(void);

/*
 * Resize the hash tables and trim the spare tags of all arenas.  The upkeep
 * pass calls it with no lock held.
 */
void vmem_update(void);

/*
 * Grow an allocated segment in place into the free segment directly behind it.
 * Returns false if that segment is not free, too small, or in another span, or
 * if a quantum cache serves oldsize.
 */
bool vmem_grow(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

/*
 * Shrink an allocated segment in place and free its tail.  Returns false if
 * there is no memory for a tag, or if a quantum cache serves one of the sizes.
 */
bool vmem_shrink(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

#endif
