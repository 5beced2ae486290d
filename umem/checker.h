/* checker.h - what valgrind and sanitizers are told; see checker.c */
#ifndef UMEM_CHECKER_H
#define UMEM_CHECKER_H

#include "vmem/base.h"

/* Does something watch this process?  Set by checker_start(). */
extern bool checker_on;

void checker_start(void);

/* Bytes between objects of a cache, so that one past the end is noticed. */
#define CHECKER_REDZONE 16

/* The objects of a cache, by any address that stands for it. */
void checker_pool(const void *pool);
void checker_pool_end(const void *pool);

/* Memory for objects, of which none is there yet, or no more. */
void checker_slab(void *at, size_t bytes);
void checker_slab_end(void *at, size_t bytes);

/* An object comes to life, holding what a constructor left, or anything. */
void checker_object(
    const void *pool, void *object, size_t bytes, bool constructed);
void checker_object_end(const void *pool, void *object, size_t bytes);

/*
 * An object of a type-stable cache is allocated or freed.  Its bytes stay
 * accessible and defined after the first allocation, because readers may look
 * at a free object.
 */
void checker_stable_object(const void *pool, void *object, size_t bytes);
void checker_stable_object_end(const void *pool, void *object);

/* The same for a block of size bytes that takes up room. */
void checker_block(void *p, size_t size, size_t room, bool zeroed);
void checker_block_end(void *p, size_t room);

/*
 * The object or block is freed, but readers may use it until checker_close(): a
 * grace period has to end before.
 */
void checker_object_defer(const void *pool, void *object, size_t bytes);
void checker_block_defer(void *p, size_t room);

/* A constructor or destructor is about to run; and has run. */
void checker_open(void *at, size_t bytes, bool defined);
void checker_close(void *at, size_t bytes);

#endif
