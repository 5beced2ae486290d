/*
 * heap_inner.h - declarations that the files of the heap share; see heap.c
 *
 * heap_window.c chooses the addresses, heap_commit.c reserves and commits
 * memory there, heap_purge.c has the states of units and purges free units.
 */
#ifndef VMEM_HEAP_INNER_H
#define VMEM_HEAP_INNER_H

#include "vmem/heap.h"
#include "vmem/lock.h"

/* The smallest step by which the heap commits memory. */
#define COMMIT_MIN  (1 * MIB)
/* The first reservation without a limit, and the largest step under one. */
#define RESERVE_MIN (64 * MIB)

/* heap.c */
extern hidden vmem_t *heap_arena; /* [I] */

/*
 * heap_window.c: set heap_window and reserve its first addresses.  Returns the
 * end of the reserved addresses, or 0 if the kernel refuses.
 */
uintptr_t heap_window_choose(void);

/* Bytes to reserve ahead; 0 if no limit of address space is near.  [I] */
extern hidden size_t heap_reserve_ahead;

/*
 * By unit, as far as the states are committed: the node and the arena of a
 * block; heap.c has the values.  NULL: one node.
 */
extern hidden uint8_t *heap_node_of;

/* heap_commit.c */
extern hidden unsigned heap_ngrowing; /* [atomic] threads inside heap_grow() */

/* Result of committing memory for a range. */
enum commit_result {
	COMMITTED,       /* committed */
	FOREIGN_MAPPING, /* a foreign mapping is at the end of the heap */
	NO_MEMORY        /* the kernel refuses */
};

/* Begin with no committed memory, and addresses reserved up to reserved. */
void heap_commit_start(uintptr_t reserved);

/* Commit all memory below end. */
enum commit_result heap_commit(uintptr_t end);

/*
 * Take the unit at the end of the reserved addresses, where a foreign mapping
 * is, out of the arena.  The caller has freed its block, so the unit is free in
 * the arena unless another thread has just allocated it.  Returns false if the
 * unit is not free or the memory below it cannot be committed.
 */
bool heap_foreign_take(void);

/*
 * Release the free and clean end of the heap to the kernel, if it has so many
 * bytes.  Under a limit of address space, thread stacks and other mappings can
 * then use the addresses.  If the kernel charges all writable memory, the
 * charge falls.
 */
void heap_end_release(size_t least);

/* heap_purge.c: the states of units. */

/* Reserve the table of states; false if the kernel refuses. */
bool heap_states_start(void);

/* Commit the states of all units below end; the caller holds heap_lock. */
bool heap_states_commit_locked(uintptr_t end);

/*
 * Clear the states of an allocated block, and store whether all units were
 * clean.  False if a purge of a unit does not end in time: then the states are
 * those of a block that is about to be freed.
 */
bool heap_states_clear(void *at, size_t bytes, bool *zeroed);

/* Mark the units of a block, which is about to be freed, as dirty. */
void heap_states_mark(void *at, size_t bytes);

/* The address from which on no unit was ever dirty. */
uintptr_t heap_states_end(void);

/* Are all units in [from, to) clean? */
bool heap_states_are_clean(uintptr_t from, uintptr_t to);

/* In the child: no other thread purges. */
void heap_states_after_fork(void);

#endif
