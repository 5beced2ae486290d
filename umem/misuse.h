/* misuse.h - one plain message for each misuse by the program, then abort */
#ifndef UMEM_MISUSE_H
#define UMEM_MISUSE_H

#include "umem/cache.h"

/* Behind "block freed twice", of a free that waits for a grace period. */
#define MISUSE_WAITS ": it waits for a grace period"

/* "umem: free(0x...): TEXT" and abort. */
_Noreturn void misuse(const char *who, const void *p, const char *text);

/* The same for a fault that a slab has found. */
_Noreturn void misuse_slab(const char *who, struct umem_cache *cache,
    const void *p, enum slab_fault fault);

/* A second free of p, which waits for a grace period; cache may be NULL. */
_Noreturn void misuse_waits(
    const char *who, const struct umem_cache *cache, const void *p);

/* free(p), where p is no block: find out why, and say so. */
_Noreturn void misuse_address(const char *who, const void *p);

/* A size was given that is not the block's. */
_Noreturn void misuse_size(const char *who, const void *p, size_t size);

#endif
