/* model.h - the state of the target's allocator; see model.c */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <assert.h>

#include "tools/inspect/model/layout.h"

struct cache {
	uint64_t at;
	const char *record; /* our copy */
	const char *name;   /* by plain_text() */
	uint64_t chunk;     /* bytes from one to the next */
	uint64_t bufsize;
	uint64_t slab_bytes;
	uint64_t source;  /* arena, 0: the heap */
	unsigned nchunks; /* in a slab */
	unsigned class;
	unsigned debug;        /* UMF_* */
	uint64_t record_bytes; /* of a buffer; 0: not debugged */
	bool has_magazines;
	bool constructs; /* and records which chunks are constructed */
	uint64_t import; /* of an import cache, which has no slabs; or 0 */
	bool listed;     /* not destroyed by the program */
	uint64_t nslabs;
	uint64_t ntotal;    /* chunks */
	uint64_t ncached;   /* in magazines */
	uint64_t ndeferred; /* wait for a grace period; see model_deferred.c */
	uint64_t nlive;
	uint64_t nallocs; /* successful allocations, if counted */
	uint64_t nfailed;
	uint64_t ncontended; /* contended lock acquisitions */
	bool counts;         /* has a limit, or may get a limit */
	uint64_t limit;      /* objects; UINT64_MAX: none */
	uint64_t nheld;      /* objects that count */
	uint64_t nwaiting, nwaits, nrefused; /* requests at the limit */
	uint64_t reserve, nready, nreserved; /* objects: set, present, used */
};

struct slab {
	uint64_t at;
	uint64_t span;
	uint64_t first;
	uint64_t records; /* 0: none */
	unsigned cache;   /* index */
	unsigned nchunks;
	uint64_t *free;        /* one bit for each chunk: free in the slab */
	uint64_t *constructed; /* constructed; NULL: not recorded */
	uint64_t *live;    /* not free, not in a magazine, and not waiting */
	uint64_t *marked;  /* reached; leaks.c */
	uint64_t *pending; /* reached, and not yet searched */
	bool is_queued;    /* it has pending chunks */
	uint64_t *unseen, *indirect; /* leaked; NULL: none; leaks_direct.c */
};

/* A sampled block; see umem/profile/sample.h. */
struct sample {
	uint64_t record;
	uint64_t at;       /* of the block */
	uint64_t cache;    /* whose object it is; 0: it is a block */
	uint64_t span;     /* unit in which it starts */
	uint64_t own_unit; /* of the record, also of a free one; 0: none */
	uint64_t size;
	uint64_t counted; /* size when it was taken */
	uint64_t mean;
	uint64_t time, freed_time; /* ns */
	uint64_t thread, freed_thread;
	const uint64_t *stack, *freed_stack; /* in our copy */
	unsigned depth, freed_depth;
	bool live;  /* else freed recently, with inaccessible pages, ... */
	bool waits; /* ... or freed, waiting for a grace period */
	bool guarded;
	/* Else it ended when the samples were halved; the block is there. */
	bool counted_now;
};

struct large {
	uint64_t at;
	uint64_t bytes; /* usable */
	uint64_t size;  /* of a sample: requested bytes; else bytes */
	const struct sample *sample; /* or NULL */
	const struct cache *cache;   /* of a sampled object; or NULL */
	bool is_ended; /* it was a sample until the samples were halved */
	bool waits;    /* freed, waits for a grace period */
	bool marked;
	bool unseen, indirect; /* leaked; leaks_direct.c */
};

/* A flavour of liburcu: freed objects wait for its readers. */
struct domain {
	uint64_t at;
	uint64_t key;
	uint64_t ngraces;   /* grace periods, so far */
	uint64_t nreleased; /* objects released after a grace period */
	bool in_grace;      /* a grace period is in progress */
	bool broken;        /* no grace period can end: a child of fork() */
	uint64_t nwaiting;
	uint64_t bytes; /* of these */
};

/* The objects of one cache, or the blocks, that wait for one domain. */
struct waiting_group {
	uint64_t at;
	size_t domain;        /* index */
	uint64_t cache;       /* address; 0: blocks */
	struct cache *import; /* the cache if it is an import cache, or NULL */
	bool foreign;         /* of another library's malloc() */
	bool malloced; /* of this library's malloc(), else of umem_alloc() */
	uint64_t unit; /* bytes counted for each object; 0: its size */
	uint64_t hot, cold, pending, waiting;
	uint64_t
	    nsubmitted; /* in pending and waiting, by the library's count */
	uint64_t nwaiting;
	uint64_t bytes;
};

/* An object that waits for a grace period. */
struct waiting_object {
	uint64_t at;
	size_t group; /* index */
};

struct segment {
	uint64_t at; /* of the tag */
	uint64_t start;
	uint64_t size;
	unsigned type; /* VMEM_* */
};

struct arena {
	uint64_t at;
	const char *record;
	const char *name; /* by plain_text() */
	uint64_t source;
	unsigned depth; /* of indentation */
};

struct model {
	struct target *target;
	const struct layout *layout;
	bool runs; /* the target is read while it runs; see usage.c */
	/* Bytes of structures that were and may be read; see model_charge(). */
	uint64_t charged, charge_most; /* 0: not counted */
	struct cache *caches;
	size_t ncaches, caches_capacity;
	size_t ndamaged; /* caches with an inconsistent record */
	struct slab *slabs;
	size_t nslabs, slabs_capacity;
	struct large *larges; /* by address */
	size_t nlarges, larges_capacity;
	struct sample *samples; /* by number; some are unused */
	size_t nsamples;
	uint64_t sampling_mean; /* bytes; 0: sampling is off */
	uint64_t ntaken, nlost; /* samples so far; those not kept */
	uint64_t nhalved;       /* times that the samples were halved */
	struct arena *arenas;   /* each arena after its source */
	size_t narenas, arenas_capacity;
	uint32_t *sourced; /* slabs not in the page map, by span */
	size_t nsourced, sourced_capacity;
	uint64_t base; /* of the heap */
	uint64_t end;
	uint32_t *unit; /* the unit table: see model.c */
	size_t nunits;
	unsigned unit_shift;
	uint64_t ninconsistent; /* headers that were claimed */
	uint64_t *inconsistent; /* their magazines */
	size_t inconsistent_capacity;
	uint64_t *resources; /* idle resources of import caches */
	size_t nresources, resources_capacity;
	uint64_t *accounted; /* sorted: magazines of CPUs and depots, and memory
			      that the library has freed */
	size_t naccounted, accounted_capacity;
	struct domain *domains;
	size_t ndomains, domains_capacity;
	struct waiting_group *groups;
	size_t ngroups, groups_capacity;
	struct waiting_object *waiting; /* sorted by address */
	size_t nwaiting, waiting_capacity;
	uint64_t newest; /* of a core: audit_now(); 0: not known yet */
};

/*
 * Detects cycles in a walk along links that may be corrupt: returns true while
 * the next item is new.  The walk follows a cycle at most three times (Brent).
 */
struct cycle_detector {
	uint64_t seen;
	size_t n;
};

static inline bool
cycle_continues(struct cycle_detector *cycles, uint64_t at)
{
	if (at == 0 || at == cycles->seen)
		return false;
	cycles->n++;
	if ((cycles->n & (cycles->n - 1)) == 0)
		cycles->seen = at;
	return true;
}

/* Parts of the target to copy besides the library's structures. */
enum {
	MODEL_LOGS = 1,     /* unpacked */
	MODEL_POINTERS = 2, /* pointers in the heap and in its roots */
	MODEL_MEMORY = 4,   /* the heap and its roots, unpacked */
	MODEL_MOVING = 8    /* with MODEL_MEMORY: much memory that was not
			       copied is read while the target runs */
};

/* The chunk or large block that contains an address. */
struct block {
	struct slab *slab; /* or */
	struct large *large;
	unsigned chunk; /* index in the slab */
	uint64_t start; /* of the chunk or block */
	uint64_t bytes; /* of it */
	bool between;   /* in the slab or span, but not in a chunk or block */
};

/*
 * Is the address in the block, or at its end?  The rest of a sample's span
 * belongs to no block.
 */
static inline bool
large_has(const struct large *large, uint64_t at)
{
	return at - large->at <= large->bytes;
}

bool model_find(struct model *model, uint64_t at, struct block *block);

static inline bool
bit_get(const uint64_t *bits, unsigned i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static inline void
bit_set(uint64_t *bits, unsigned i)
{
	bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static inline void
bit_clear(uint64_t *bits, unsigned i)
{
	bits[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static inline unsigned
words_of_bits(unsigned nbits)
{
	return (nbits + 63) / 64;
}

/* Returns the number of bits that are set. */
static inline unsigned
bits_count(const uint64_t *bits, unsigned nbits)
{
	unsigned n = 0;

	for (unsigned w = 0; w < words_of_bits(nbits); w++)
		n += (unsigned)__builtin_popcountll(bits[w]);
	return n;
}

static inline uint64_t
slab_chunk_at(const struct model *model, const struct slab *slab, unsigned i)
{
	assert(i < slab->nchunks && slab->cache < model->ncaches);
	return slab->first + i * model->caches[slab->cache].chunk;
}

/* Calls f for each round of the magazine at at; returns their number. */
typedef void model_round_func(struct model *, void *arg, uint64_t object);
unsigned model_rounds(struct model *model, uint64_t magazine, unsigned nrounds,
    model_round_func *f, void *arg);

/*
 * Returns the domain of the grace period for which the object at at waits, or
 * NULL if it does not wait.
 */
const struct domain *model_waits_for(const struct model *model, uint64_t at);

/* Can sampling be turned on?  Not if every block is checked. */
bool model_can_sample(const struct model *model);

/* Returns the flavour's symbol, "urcu_memb_flavor", or its key's address. */
const char *model_flavour(struct model *model, const struct domain *domain);

/* Returns the name of the cache of a group, or a description of its blocks. */
const char *model_group_name(
    struct model *model, const struct waiting_group *group);

/* Is there a plausible magazine at at? */
bool model_is_magazine(
    struct model *model, uint64_t at, unsigned *capacity, uint64_t *next);

/*
 * Is the magazine at at in no CPU's header and no depot, and not freed?  Then a
 * thread holds it.
 */
bool model_is_in_flight(struct model *model, uint64_t at);

struct cache *model_cache(struct model *model, const char *name_or_address);
/* Returns the cache at an address, or NULL. */
struct cache *model_cache_at(struct model *model, uint64_t at);
struct arena *model_arena(struct model *model, uint64_t at);

/* Returns the arena's tags in ring order; the caller frees them. */
struct segment *model_segments(
    struct model *model, const struct arena *arena, size_t *n);

/* Is this the record of an allocated block that stands for others? */
static inline bool
sample_is_live(const struct sample *s)
{
	return s->record != 0 && s->live && s->counted_now;
}

/* An estimate from samples. */
struct sample_sum {
	double blocks, bytes;
};

/* Sums of the samples of a stack; see umem/profile/sample_stack.h. */
struct sample_sums {
	const uint64_t *stack;
	unsigned depth;
	struct sample_sum allocated, live, lived_ms, lived_s, peak;
};

/* Calls add for each stack of samples; returns the age of the peak, in ns. */
uint64_t model_each_stack(struct model *model,
    void (*add)(const struct sample_sums *, void *arg), void *arg);

/* Returns the number of blocks that a sample stands for, itself included. */
double sample_weight(const struct sample *s);

#endif
