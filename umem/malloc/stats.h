/* stats.h - figures of the memory that the library holds; see stats.c */
#ifndef UMEM_STATS_H
#define UMEM_STATS_H

#include "umem/cache/cache.h"

/*
 * All members are in bytes, except the counts.  The names of counts begin with
 * n.
 */
struct stats {
	size_t committed;     /* committed bytes of the heap, maximum so far */
	size_t held;          /* heap memory not returned to the kernel */
	size_t dirty;         /* free pages not returned to the kernel */
	size_t slabs;         /* in slabs of every cache */
	size_t chunks_live;   /* chunks held by the program */
	size_t chunks_cached; /* the others: free, or awaiting a grace period */
	size_t nchunks_free;
	size_t large; /* large blocks */
	size_t nlarge;
	size_t large_most;  /* maximum of large so far */
	size_t nlarge_most; /* maximum of nlarge so far */
	size_t meta;        /* memory for the library's own structures */
};

/* Fills *stats; all 0 if the library cannot start. */
void stats_read(struct stats *stats);

struct stats_cache {
	const char *name;
	uintptr_t address; /* of a cache of the program; 0: of a size class */
	size_t chunk;      /* bytes */
	size_t nslabs;
	size_t nchunks;  /* in these slabs */
	size_t nlive;    /* held by the program */
	size_t ncached;  /* in magazines or the reserve */
	size_t nwaiting; /* freed, awaiting a grace period */
	uint64_t nfailed;
	unsigned rounds; /* capacity of new magazines */
	uint32_t nmoved; /* magazines moved into or out of the depot, so far */
};

/* Calls f for each cache, with cache_list_lock held. */
void stats_each_cache(
    void (*f)(const struct stats_cache *, void *arg), void *arg);

#endif
