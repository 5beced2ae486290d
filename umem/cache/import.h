/* import.h - the source of an import cache; see import.c */
#ifndef UMEM_IMPORT_H
#define UMEM_IMPORT_H

#include "umem/cache/pointer_set.h"
#include "umem/umem.h"
#include "vmem/lock.h"

/* The memory of a pool. */
struct import_arrays {
	void **pool;     /* idle resources, a stack */
	size_t capacity; /* of the pool */
	struct pointer_set held;
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
	struct lock gate;            /* rank LOCK_IMPORT */
	struct import_arrays arrays; /* [s] held: those of the program */
	size_t npool;                /* [s] idle in the pool */
	size_t npool_low;            /* [s] least npool since import_update() */
	size_t nowned;               /* [s] imported or being imported */
	uint32_t ncalls;             /* [a] calls in transit */
	uint32_t nends;              /* [a] ends of such calls, to wait on */
	uint32_t nwaiting;           /* [a] threads that wait for an end */
};

#endif
