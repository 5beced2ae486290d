/* misuse.h - one message for each kind of misuse by the program, then abort */
#ifndef UMEM_MISUSE_H
#define UMEM_MISUSE_H

#include "umem/cache/cache.h"

/* Follows "block freed twice" if the first free waits for a grace period. */
#define MISUSE_WAITING ": it waits for a grace period"

/*
 * Reports "umem: free(0x...): TEXT" and aborts.  Messages contain the name of
 * the function: here "free".  umem/profile/panic_report.c adds the block, the
 * thread and its stack.
 */
_Noreturn void misuse(const char *function, const void *p, const char *text);

/* Like misuse(), for a fault that a slab has found. */
_Noreturn void misuse_slab(const char *function, struct umem_cache *cache,
    const void *p, enum slab_fault fault);

/*
 * Reports a second free of p, which waits for a grace period.  cache may be
 * NULL.
 */
_Noreturn void misuse_waiting(
    const char *function, const struct umem_cache *cache, const void *p);

/* Reports free(p) where p is no block: finds the reason and names it. */
_Noreturn void misuse_address(const char *function, const void *p);

/* Reports a size that does not fit the block. */
_Noreturn void misuse_size(const char *function, const void *p, size_t size);

#endif
