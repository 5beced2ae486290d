/* import.h - the source of an import cache; see import.c */
#ifndef UMEM_IMPORT_H
#define UMEM_IMPORT_H

#include "umem/cache/held.h"
#include "umem/umem.h"
#include "vmem/lock.h"

/* The memory of a pool. */
struct import_arrays {
	void **pool;     /* idle resources, a stack */
	size_t capacity; /* of the pool */
	struct held held;
};

/*
 * The resources of one import cache that are in no magazine, and the functions
 * that supply them.
 *
 * Keys: [I] set at creation, [s] lock of cache->slabs, [a] atomic
 */
struct import {
	umem_import_t *import;       /* [I] */
	umem_release_t *release;     /* [I] */
	void *arg;                   /* [I] for both */
	size_t pool_most;            /* [I] resources that the pool keeps */
	unsigned rounds_most;        /* [I] of a magazine; 0: no limit */
	bool has_magazines;          /* [I] the cache may have them */
	bool checked;                /* [I] arrays.held is in use */
	struct lock gate;            /* rank LOCK_QUANTUM */
	struct import_arrays arrays; /* [s] held: those of the program */
	size_t npool;                /* [s] idle in the pool */
	size_t npool_low;            /* [s] least npool since import_update() */
	size_t nowned;               /* [s] imported or being imported */
	uint32_t ncalls;             /* [a] calls in transit */
	uint32_t nends;              /* [a] ends of such calls, to wait on */
	uint32_t nwaiting;           /* [a] threads that wait for an end */
};

struct umem_cache;

/*
 * max_idle and the functions are those of umem_import_cache_create().
 * magazines allows magazines.  checked asks for a record of the resources that
 * the program holds, which excludes magazines.  NULL: no memory.
 */
struct import *import_new(umem_import_t *import, umem_release_t *release,
    void *arg, size_t max_idle, bool magazines, bool checked);
void import_delete(struct import *import);

/*
 * The gate of an import cache is closed while a batch of resources moves
 * between magazines and the pool.  Opening it releases resources beyond
 * pool_most, so it may call the program.
 */
void import_gate_close(struct umem_cache *cache);
void import_gate_open(struct umem_cache *cache);

/*
 * For the magazine layer, with the gate closed: one resource, and a magazine of
 * up to want - 1 others if the pool has some.  Opens and closes the gate to
 * call the program.  NULL: there is none, and errno says why.
 */
void *import_refill(struct umem_cache *cache, unsigned want);

/* The same for one resource past the magazines. */
void *import_take(struct umem_cache *cache);

/*
 * Takes up to n resources from the pool, or else imports up to n, with the gate
 * open.  Returns how many.
 */
unsigned import_take_bulk(
    struct umem_cache *cache, void **resources, unsigned n);

/*
 * Puts n resources into the pool.  Misuse ends the program with a message that
 * names function, the function of the program's call.
 */
void import_give(struct umem_cache *cache, void *const *resources, unsigned n,
    const char *function);

/* Releases every resource of the pool. */
void import_reap(struct umem_cache *cache);

/*
 * Releases the resources that the pool has not missed since the last call.
 * Returns whether it has more.
 */
bool import_update(struct umem_cache *cache);

/* Resources that are imported and not released. */
size_t import_count(struct umem_cache *cache);

/* For the atfork handlers, with cache_list_lock held. */
void import_gates_lock_for_fork(void);
void import_gates_unlock_for_fork(bool child);

#endif
