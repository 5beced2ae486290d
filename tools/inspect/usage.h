/* usage.h - where the memory of the target is; see usage.c */
#ifndef TOOLS_USAGE_H
#define TOOLS_USAGE_H

#include "tools/inspect/model.h"

/* Figures of one cache. */
struct usage_cache {
	uint64_t at;
	char name[32];
	bool is_class; /* of malloc() and umem_alloc() */
	bool in_heap;  /* its slabs are in the heap */
	uint64_t chunk, bufsize;
	uint64_t memory; /* bytes of slabs */
	uint64_t used;   /* chunks outside the slabs' free lists */
	uint64_t ncpu;   /* of these: in the magazines of CPUs, ... */
	uint64_t ndepot; /* ... in depots, the reserve or the quarantine */
	uint64_t nfree;  /* free chunks in slabs */
	/* Counters modulo 2^32, so differences are computed in 32 bits. */
	uint32_t nloads;     /* magazines loaded from depots or slabs */
	uint32_t nrefills;   /* those filled from slabs */
	uint32_t nreceived;  /* rounds of loaded magazines */
	uint32_t ncontended; /* contended acquisitions of locks */
};

struct usage_cpu {
	uint64_t cached;  /* bytes */
	uint32_t nloads;  /* modulo 2^32 */
	uint64_t largest; /* bytes of the cache with the most, ... */
	size_t cache;     /* ... by index */
};

/*
 * The identity, in bytes:
 *	rss = in_use + rounding + cpus + depots + slabs + dirty + samples + own
 *	      + others - untouched
 * Without pages (a core), rss, others and untouched are 0.
 */
struct usage {
	double time; /* seconds_now() */
	bool has_pages;
	uint64_t rss;
	uint64_t in_use;    /* blocks and objects that the program holds; ... */
	uint64_t large;     /* ... of it in large blocks, ... */
	uint64_t arenas;    /* ... and in arenas that take memory of the heap */
	uint64_t rounding;  /* chunks and slabs beyond what was asked for */
	uint64_t cpus;      /* free, in the magazines of CPUs, ... */
	uint64_t depots;    /* ... in depots, ... */
	uint64_t slabs;     /* ... in slabs */
	uint64_t dirty;     /* free pages not returned to the kernel */
	uint64_t samples;   /* pages of sampled blocks */
	uint64_t own;       /* the library's structures */
	uint64_t others;    /* not of this library */
	uint64_t untouched; /* parts of the above that have no memory */
	uint64_t nsamples;
	struct usage_cache *caches;
	size_t ncaches, caches_capacity;
	struct usage_cpu *cpu;
	size_t ncpus;
};

/* A layer of the identity, but for untouched. */
struct usage_layer {
	const char *key; /* in JSON and in records */
	const char *name;
	const char *meaning;
	size_t offset; /* of the member of struct usage */
};

/* The layers, from the bottom of a plot to its top. */
enum {
	USAGE_LAYERS = 9
};
extern const struct usage_layer usage_layers[USAGE_LAYERS];

/* Returns the bytes in layer i. */
static inline uint64_t
usage_in(const struct usage *u, size_t i)
{
	return *(const uint64_t *)((const char *)u + usage_layers[i].offset);
}

/* Reads the figures of a process that runs, or of a copy or a core. */
void usage_read(struct model *model, struct usage *usage);
void usage_free(struct usage *usage);

/* Returns the bytes in free blocks, wherever they are cached. */
static inline uint64_t
usage_cached(const struct usage *u)
{
	return u->cpus + u->depots + u->slabs;
}

/* Returns the chunks that the program holds. */
static inline uint64_t
usage_nlive(const struct usage_cache *c)
{
	uint64_t cached = c->ncpu + c->ndepot;

	return c->used > cached ? c->used - cached : 0;
}

/*
 * Returns the identity in lines of at most width bytes, separated by newlines;
 * the caller frees it.
 */
char *usage_text(const struct usage *usage, size_t width);

/* Prints the members of the identity into an open JSON object. */
void usage_json(const struct usage *usage);

/* Reads the pages in memory of a range; usage_pages.c. */
struct usage_pages {
	int fd; /* of /proc/PID/pagemap; -1: there is none */
	uint64_t page;
};
void usage_pages_open(struct usage_pages *pages, const struct target *target);
uint64_t usage_pages_in(
    const struct usage_pages *pages, uint64_t at, uint64_t bytes);
void usage_pages_close(struct usage_pages *pages);

#endif
