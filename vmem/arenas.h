/* arenas.h - functions of arenas for the layers above */
#ifndef VMEM_ARENAS_H
#define VMEM_ARENAS_H

#include "vmem/base.h"
#include "vmem/lock.h"
#include "vmem/vmem.h"

/* Sizes and addresses of all segments are multiples of the quantum. */
size_t vmem_quantum(const vmem_t *arena);

/*
 * Can the release of a span of this arena call a function of the program?  True
 * if it calls any function but vmem_free(), vmem_xfree() and own.  own is the
 * function that releases memory to the heap.
 */
bool vmem_release_calls_program(const vmem_t *arena, vmem_free_t *own);

/* Guards the list of arenas; for the atfork handlers. */
extern hidden struct lock arena_list_lock;

/* For the atfork handlers: take and release the lock of every arena. */
void vmem_lock_for_fork(void);
void vmem_unlock_for_fork(bool child);

/*
 * Grow an allocated segment in place into the free segment directly behind it.
 * Returns false if that segment is not free, too small, or in another span.
 */
bool vmem_grow(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

/*
 * Shrink an allocated segment in place and free its tail.  Returns false if
 * there is no memory for a tag.
 */
bool vmem_shrink(vmem_t *arena, void *addr, size_t oldsize, size_t newsize);

#endif
