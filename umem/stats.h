/* stats.h - what the library holds, in figures; see stats.c */
#ifndef UMEM_STATS_H
#define UMEM_STATS_H

#include "umem/cache.h"

/* All in bytes but the counts. */
struct stats {
	size_t committed;     /* address space of the heap, the most so far */
	size_t held;          /* memory of the heap that has not gone back */
	size_t dirty;         /* free, and not given back to the kernel */
	size_t slabs;         /* in slabs of every cache */
	size_t chunks_live;   /* chunks that the program holds */
	size_t chunks_cached; /* the others: free, or waiting to be so */
	size_t nchunks_free;
	size_t large; /* blocks straight from the heap */
	size_t nlarge;
	size_t large_most;  /* the most that there was in such blocks */
	size_t nlarge_most; /* the most that there were at a time */
	size_t meta;        /* what the library uses for itself */
};

void stats_read(struct stats *stats);

struct stats_cache {
	const char *name;
	size_t chunk; /* bytes */
	size_t nslabs;
	size_t nchunks;  /* in these slabs */
	size_t nlive;    /* held by the program */
	size_t ncached;  /* in magazines or the reserve */
	size_t nwaiting; /* freed, for a grace period */
	uint64_t nfailed;
	unsigned rounds; /* of a magazine made now */
	uint32_t nmoved; /* magazines into or out of the depot, so far */
};

/* Calls f for each cache, with the list of caches locked. */
void stats_each_cache(
    void (*f)(const struct stats_cache *, void *arg), void *arg);

#endif
