/*
 * defer_api.h - functions of libumem for libumem_rcu.so.1; see defer.c
 *
 * These functions are exported for libumem_rcu.so.1 alone, and both libraries
 * are of one version: nothing here is part of the interface for programs.  The
 * core does not depend on liburcu.  It knows a flavour by an address, its key,
 * and by four functions that wait for readers.
 */
#ifndef UMEM_DEFER_API_H
#define UMEM_DEFER_API_H

#include <stdbool.h>

#include "umem/umem.h"

/* How to wait for the readers of a flavour. */
struct umem_grace {
	void (*synchronize)(void); /* returns after a grace period */
	int (*reading)(void);      /* is the caller in a read-side section? */
	void (*offline)(void);     /* with qsbr: the caller reads nothing ... */
	void (*online)(void);      /* ... until here; otherwise no effect */
	bool forks;                /* a copy of synchronize() ends in a child */
};

/* Fills in grace for the flavour of this key. */
typedef void umem_grace_of_t(const void *key, struct umem_grace *grace);

/* umem_rcu.h has the results and errors, by the names of the callers. */
int umem_defer_object(umem_cache_t *cache, void *object, const void *key,
    umem_grace_of_t *grace_of);
int umem_defer_sized(
    void *buf, size_t size, const void *key, umem_grace_of_t *grace_of);

/*
 * Where malloc() is not this library's, release frees p, and usable returns the
 * bytes that p counts for; without it, 64.
 */
int umem_defer_block(void *p, void (*release)(void *), size_t (*usable)(void *),
    const void *key, umem_grace_of_t *grace_of);
int umem_defer_attach(
    umem_cache_t *cache, const void *key, umem_grace_of_t *grace_of);
int umem_defer_barrier(const void *key);

#endif
