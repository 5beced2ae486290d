/* usage.h - where the memory of the target is; see usage.c */
#ifndef TOOLS_USAGE_H
#define TOOLS_USAGE_H

#include "tools/inspect/model/library.h"
#include "umem/umem.h"

/* Figures of one cache. */
struct usage_cache {
	uint64_t at;
	char name[32];
	bool is_class; /* of malloc() and umem_alloc() */
	bool is_ended; /* destroyed by the program, while objects were in use */
	uint64_t chunk, bufsize;
	uint64_t in_heap; /* bytes of each chunk that are memory of the heap */
	uint64_t memory;  /* bytes of slabs, in the heap or in another arena */
	uint64_t nslabs;
	uint64_t nchunks;  /* in all slabs */
	uint64_t nlive;    /* chunks that the program holds */
	uint64_t ncpu;     /* free: in the magazines of CPUs, ... */
	uint64_t ndepot;   /* ... in depots, the reserve or the quarantine */
	uint64_t nwaiting; /* freed, waiting for a grace period */
	uint64_t nfailed;  /* allocations */
	/* Counters modulo 2^32, so differences are computed in 32 bits. */
	uint32_t nloads;     /* magazines loaded from depots or slabs */
	uint32_t nrefills;   /* those filled from slabs */
	uint32_t nreceived;  /* rounds of loaded magazines */
	uint32_t ncontended; /* contended acquisitions of locks */
};

/*
 * The identity, in bytes; the layers are those of umem/stats/stats.c:
 *	sum = live + cpu + depot + slab + waiting + dirty + sampled + own
 *	rss = sum + surplus + others - untouched
 * Without pages (a core), rss and the members below it are 0.
 */
struct usage {
	double time;            /* seconds_now() */
	struct umem_stats s;    /* those that are metrics; the others are 0 */
	bool has_pages;         /* the following are known */
	uint64_t rss;           /* the resident set */
	uint64_t others;        /* not of this library */
	uint64_t untouched;     /* parts of the layers that have no memory */
	uint64_t surplus;       /* memory of the library in no layer */
	uint64_t nsamples;      /* live ones */
	uint64_t nlarge_failed; /* requests for large blocks */
	struct usage_cache *caches;
	size_t ncaches, caches_capacity;
	struct ranges ranges; /* memory of the library, the heap first */
};

/*
 * Reads the figures of a process that runs, if the model is that of no
 * snapshot, or else of a copy or a core.  The samples of the model, if it has
 * any, serve for nsamples.  A process that runs has no copies afterwards.
 */
void usage_read(struct model *model, struct usage *usage);
void usage_free(struct usage *usage);

/*
 * Adds the bytes of the pages of a range that are in memory.  Returns false if
 * the kernel does not show the pages.
 */
bool usage_pages(struct target *target, struct range range, uint64_t *bytes);

/* Returns the bytes in free blocks, wherever they are cached. */
static inline uint64_t
usage_cached(const struct usage *u)
{
	return u->s.cpu_bytes + u->s.depot_bytes + u->s.slab_bytes;
}

/* Returns the sum of the layers that are memory of the library. */
static inline uint64_t
usage_sum(const struct usage *u)
{
	return u->s.live_bytes + usage_cached(u) + u->s.waiting_bytes +
	       u->s.dirty_bytes + u->s.sampled_bytes + u->s.own_bytes;
}

static inline uint64_t
usage_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * Returns the identity in lines of at most width bytes, separated by newlines;
 * the caller frees it.
 */
char *usage_text(const struct usage *usage, size_t width);

/* Prints the figures as a member of a JSON object. */
void usage_json(const struct usage *usage);

#endif
