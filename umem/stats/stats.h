/* stats.h - figures of the memory that the library holds; see stats.c */
#ifndef UMEM_STATS_H
#define UMEM_STATS_H

#include <sys/types.h>

#include "umem/cache/cache.h"

/* Fills *stats; all 0 if the library cannot start. */
void stats_read(struct umem_stats *stats);

/*
 * The bytes that no member counts: heap_bytes without its parts.  0 while no
 * other thread allocates or frees.
 */
ssize_t stats_unaccounted(const struct umem_stats *stats);

struct stats_cache {
	const char *name;
	unsigned class;     /* number in class_cache; 0: none */
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
};

/* Calls f for each cache, with cache_list_lock held. */
void stats_each_cache(
    void (*f)(const struct stats_cache *, void *arg), void *arg);

#endif
