/* usage.h - where the memory of the target is; see usage.c */
#ifndef TOOLS_USAGE_H
#define TOOLS_USAGE_H

#include "tools/inspect/model/model.h"

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

/* A limit of the heap's memory. */
struct usage_limit {
	uint64_t limit;    /* bytes; 0: none */
	uint64_t nreached; /* how often it was reached */
};

/* Memory of the library, by addresses. */
struct usage_range {
	uint64_t at, bytes;
};

/*
 * The identity, in bytes; the layers are those of umem/stats/stats.c:
 *	sum = in_use + cpus + depots + slabs + waiting + dirty + samples + own
 *	rss = sum + surplus + others - untouched
 * Without pages (a core), rss and the members below it are 0.
 */
struct usage {
	double time;        /* seconds_now() */
	uint64_t heap;      /* the layers without own, by counts of the heap */
	uint64_t in_use;    /* blocks and objects that the program holds; ... */
	uint64_t large;     /* ... of it in large blocks, ... */
	uint64_t arenas;    /* ... and in arenas that take memory of the heap */
	uint64_t cpus;      /* free, in the magazines of CPUs, ... */
	uint64_t depots;    /* ... in depots, ... */
	uint64_t slabs;     /* ... in slabs */
	uint64_t waiting;   /* for a grace period */
	uint64_t dirty;     /* free pages not returned to the kernel */
	uint64_t samples;   /* pages of sampled blocks */
	uint64_t own;       /* the library's structures */
	bool has_pages;     /* the following are known */
	uint64_t rss;       /* the resident set */
	uint64_t others;    /* not of this library */
	uint64_t untouched; /* parts of the layers that have no memory */
	uint64_t surplus;   /* memory of the library in no layer */
	uint64_t nsamples;  /* live ones */
	uint64_t nlarge_failed; /* requests for large blocks */
	uint64_t nwrong_sizes;  /* frees with a size that does not fit */
	uint64_t held;          /* bytes that count towards the hard limit */
	struct usage_limit soft, hard;
	struct usage_cache *caches;
	size_t ncaches, caches_capacity;
	struct usage_range *ranges;
	size_t nranges, ranges_capacity;
};

/*
 * Reads the figures of a process that runs, or of a copy or a core.  The
 * samples of the model, if it has any, serve for nsamples.
 */
void usage_read(struct model *model, struct usage *usage);
void usage_free(struct usage *usage);

/* Returns the bytes in free blocks, wherever they are cached. */
static inline uint64_t
usage_cached(const struct usage *u)
{
	return u->cpus + u->depots + u->slabs;
}

/* Returns the sum of the layers that are memory of the library. */
static inline uint64_t
usage_sum(const struct usage *u)
{
	return u->in_use + usage_cached(u) + u->waiting + u->dirty +
	       u->samples + u->own;
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
