/* stats.h - figures of the memory that the library holds; see stats.c */
#ifndef UMEM_STATS_H
#define UMEM_STATS_H

#include <sys/types.h>

#include "umem/cache/cache.h"

/*
 * All members are in bytes, except the counts.  The names of counts begin with
 * n.  stats.c says how the figures add up.
 */
struct stats {
	size_t mapped;  /* heap and own */
	size_t heap;    /* heap memory that is not returned to the kernel */
	size_t live;    /* held by the program: chunks, large, arenas */
	size_t cpus;    /* free chunks in the magazines of CPUs */
	size_t depots;  /* in depots, reserves and the quarantine */
	size_t slabs;   /* the rest of the slabs */
	size_t waiting; /* freed chunks that wait for a grace period */
	size_t dirty;   /* free pages of the heap */
	size_t samples; /* pages of sampled blocks */
	size_t warm;    /* pages kept for the next samples */
	size_t own;     /* the library's structures */
	size_t limited; /* heap memory that the hard limit counts */

	size_t committed;   /* committed bytes of the heap, maximum so far */
	size_t chunks;      /* part of live: chunks of slabs */
	size_t large;       /* part of live: large blocks */
	size_t arenas;      /* part of live: in arenas of the program */
	size_t nlarge;      /* large blocks and samples */
	size_t large_most;  /* maximum of large blocks so far */
	size_t nlarge_most; /* maximum of nlarge so far */
	size_t nfree;       /* free chunks, cached and waiting ones included */
};

/* Fills *stats; all 0 if the library cannot start. */
void stats_read(struct stats *stats);

/* Bytes of free chunks, wherever they are cached. */
static inline size_t
stats_cached(const struct stats *stats)
{
	return stats->cpus + stats->depots + stats->slabs;
}

/*
 * The bytes that no member counts: heap without all members from live to warm.
 * 0 while no other thread allocates or frees.
 */
ssize_t stats_unaccounted(const struct stats *stats);

struct stats_cache {
	const char *name;
	uintptr_t address;  /* of a cache of the program; 0: of a size class */
	size_t chunk;       /* bytes */
	size_t memory;      /* bytes of the heap in each slab */
	size_t absent;      /* bytes of addresses of the heap in each slab */
	bool is_firewalled; /* addresses from firewall.c */
	size_t nslabs;
	size_t nchunks;  /* in these slabs */
	size_t nlive;    /* held by the program */
	size_t ncpu;     /* in magazines of CPUs */
	size_t ndepot;   /* in the depot, the reserve or the quarantine */
	size_t nwaiting; /* freed, awaiting a grace period */
	uint64_t nfailed;
	unsigned rounds; /* capacity of new magazines */
	uint32_t nmoved; /* magazines moved into or out of the depot, so far */
};

/* Calls f for each cache, with cache_list_lock held. */
void stats_each_cache(
    void (*f)(const struct stats_cache *, void *arg), void *arg);

#endif
