/* checker.h - annotations for valgrind and sanitizers; see checker.c */
#ifndef UMEM_CHECKER_H
#define UMEM_CHECKER_H

#include "vmem/base.h"

/* Does a memory checker watch this process?  Set by checker_start(). */
extern hidden bool checker_on;

void checker_start(void);

/* Bytes between objects of a cache, so that a checker notices an overrun. */
#define CHECKER_REDZONE 16

/*
 * Register and unregister a pool, which has the objects of a cache.  Any
 * address may identify it.
 */
void checker_pool_create(const void *pool);
void checker_pool_destroy(const void *pool);

/*
 * Register and unregister memory for objects: no object in it exists yet, or
 * any more.
 */
void checker_slab_create(void *at, size_t bytes);
void checker_slab_destroy(void *at, size_t bytes);

/*
 * Mark an object of a pool as allocated, with defined bytes if a constructor
 * has run, and as freed.
 */
void checker_object(
    const void *pool, void *object, size_t bytes, bool constructed);
void checker_object_end(const void *pool, void *object, size_t bytes);

/*
 * Mark an object of a type-stable cache as allocated, and as freed.  Its bytes
 * stay accessible and defined after the first allocation, because readers may
 * read a free object.
 */
void checker_stable_object(const void *pool, void *object, size_t bytes);
void checker_stable_object_end(const void *pool, void *object);

/*
 * Mark a block as allocated, and as freed.  The program may use size of its
 * room bytes.
 */
void checker_block(void *p, size_t size, size_t room, bool zeroed);
void checker_block_end(void *p, size_t room);

/*
 * Mark an object, and a block, as freed while readers may still read it: until
 * checker_poison(), which is called after a grace period.
 */
void checker_object_defer(const void *pool, void *object, size_t bytes);
void checker_block_defer(void *p, size_t room);

/*
 * Unpoison memory before a constructor or destructor runs, and poison it
 * afterwards.
 */
void checker_unpoison(void *at, size_t bytes, bool defined);
void checker_poison(void *at, size_t bytes);

#endif
