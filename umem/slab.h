/* slab.h - slabs of one cache; see slab.c */
#ifndef UMEM_SLAB_H
#define UMEM_SLAB_H

#include "umem/slab_layout.h"
#include "umem/umem.h"
#include "vmem/list.h"
#include "vmem/lock.h"

/* Partly used slabs, by how full they are: 0 nearly full. */
#define SLAB_BINS 4

struct slab_store;

/*
 * One slab.  Keys: [I] set at creation, [s] store->lock, [a] atomic, written by
 * the holder of the lock unless slab.c says otherwise.  The first line is
 * all that a visit needs but the bits.
 */
struct slab {
	struct list link;         /* [s] in a bin, or full, empty or retired */
	struct slab_store *store; /* [I] */
	uintptr_t span;           /* [I] */
	uintptr_t first;          /* [I] span + colour */
	uint32_t nfree;           /* [s] */
	uint32_t high;            /* [a] chunks from here on were never taken */
	uint32_t hint;            /* [s] no free chunk in words below this */
	uint16_t bin;             /* [s] */
	uint16_t swept;           /* [s] 1: nothing was freed since a sweep */
	uint64_t purged;          /* [s] parts that have no memory */
	struct slab *next;        /* [s] in a hash chain, or of slabs to end */
	void *records;  /* [I] of a debugged cache, one a chunk; see debug.h */
	uint32_t nraw;  /* [s] free chunks that are not constructed */
	uint32_t batch; /* [s] of a retired slab; see slab_retire.c */
	/*
	 * [a] 1: free; behind these [a] 1: constructed, if the store constructs,
	 * and [a] 1: held by the program, if the store is checked.
	 */
	uint64_t bits[];
};

_Static_assert(offsetof(struct slab, next) == CACHE_LINE, "one line");

/*
 * Chunks of one word of a slab's bits, on their way from the slab or to it.
 * It lies on the stack, where tools find it by its slab (tools/leaks.c).
 */
struct slab_claim {
	struct slab *slab;
	uint64_t mask;
	uint32_t word;   /* of slab->bits */
	uint32_t n;      /* bits of the mask */
	uintptr_t first; /* giving: of the slab */
};

/* At a time: the lock is held for 100 ns, and 1 KiB of a stack is used. */
#define SLAB_CLAIMS 32

struct slab_claims {
	unsigned n;
	unsigned nchunks;
	struct slab_claim claim[SLAB_CLAIMS];
};

/*
 * Keys: [I] set at creation, [s] lock, [a] lock to write, atomic to read,
 * [u] unlocked, atomic.  What every visit writes is on lines of its own:
 * others read the rest before they lock.
 */
struct slab_store {
	struct lock lock;  /* rank LOCK_SLAB */
	size_t nused;      /* [a] chunks taken */
	uint32_t nvisits;  /* [a] takes and gives */
	uint32_t nslabs;   /* [a] */
	uint32_t nempty;   /* [s] */
	uint32_t nunused;  /* [s] least nempty since slab_reap_unused() */
	size_t nraw;       /* [a] free chunks that are not constructed */
	struct list full;  /* [s] */
	struct list empty; /* [s] */
	struct list partial[SLAB_BINS]
	    __attribute__((aligned(CACHE_LINE))); /* [s] */
	struct slab_layout layout                 /* [I] */
	    __attribute__((aligned(CACHE_LINE)));
	vmem_t *source;        /* [I] NULL: the heap */
	unsigned map_class;    /* [I] class byte in the address map */
	uint32_t record_bytes; /* [I] 0: chunks have no records */
	size_t part_bytes;     /* [I] of a bit of slab.purged */
	bool constructs;       /* [I] keeps chunks constructed; see slab.c */
	bool guarded;          /* [I] spans are of firewall.c */
	bool watched;          /* [I] chunks are told of; see checker.h */
	bool hollow;           /* [I] chunks are addresses without memory */
	bool checked;          /* [I] knows which chunks the program holds */
	bool quantum;          /* [I] of a quantum cache of the source */
	bool stable;           /* [I] type-stable; see slab_retire.c */
	uint32_t hash_size;    /* [a] power of two, or 0 */
	/* Called without a lock before a constructed chunk goes away. */
	void (*destruct)(struct slab_store *store, void *object);
	/* [I] Called without a lock if a stable store has slabs to retire. */
	void (*want_retire)(struct slab_store *store);
	struct slab **hash; /* [s] by span, if there is a source */
	struct slab *aside; /* [s] a sweep has it, or had it before a fork */
	size_t colour;      /* [u] of the next slab */
	uint64_t ncreated;  /* [a] slabs ever made */
	/* Not beside the lock: its holder needs that line. */
	uint32_t nwaited; /* [u] visits that found the lock taken */
	/* Of a stable store: */
	uint32_t retire_wanted; /* [a] 0: no; else 1 + empty slabs to keep */
	uint32_t nretired;      /* [a] */
	uint32_t last_batch;    /* [s] of retired slabs */
	struct list retired;    /* [s] by batch, the first retired first */
};

void slab_store_init(struct slab_store *store, const struct slab_layout *layout,
    vmem_t *source, unsigned map_class,
    void (*destruct)(struct slab_store *store, void *object));

/*
 * Ends the store; no other thread may use it.  Destroys every slab of which
 * no chunk is taken, and destructs the constructed chunks that lie free in
 * the other slabs.  Returns true if no slab is left.
 */
bool slab_store_end(struct slab_store *store);

/*
 * Takes up to n chunks, lowest address last, so that a stack of them hands
 * them out in address order.  A store that constructs gives only constructed
 * chunks that lie free, and makes no slab for more.  Returns the number of
 * chunks; 0 means that there is no memory, or no constructed chunk.
 */
unsigned slab_take(struct slab_store *store, void **chunks, unsigned n);

/*
 * Takes one chunk, or returns NULL if there is no memory.  *raw is set to
 * whether the caller has to construct it: then the caller calls
 * slab_constructed() after that, or slab_give_raw() if it failed.
 */
void *slab_take_one(struct slab_store *store, bool *raw);
void slab_constructed(struct slab_store *store, void *chunk);

/* Racy estimate: constructed chunks that lie free in the slabs. */
size_t slab_nready(const struct slab_store *store);

enum slab_fault {
	SLAB_FINE,
	SLAB_FOREIGN,  /* in no slab of this store */
	SLAB_INTERIOR, /* not where a chunk starts */
	SLAB_FREE,     /* is free already */
	SLAB_NEVER     /* was never allocated */
};

/*
 * Give chunks back.  Stops at the first that cannot be one of ours and tells
 * which (*bad); the others are in their slabs then.
 */
enum slab_fault slab_give(
    struct slab_store *store, void **chunks, unsigned n, void **bad);

/* Gives one chunk back whose constructor failed, or that was destructed. */
void slab_give_raw(struct slab_store *store, void *chunk);

/* Why would a free of p fail?  For a message; takes the lock. */
enum slab_fault slab_inspect(struct slab_store *store, void *p);

/*
 * Which chunk p is, whether free or not: FINE, INTERIOR (then *i is the one
 * that it lies in), or FOREIGN.  If it is free, the slab may go any time.
 */
enum slab_fault slab_look(
    struct slab_store *store, void *p, struct slab **slab, unsigned *i);

/*
 * Can p be a chunk that is not in its slab?  FINE, or the fault that a free of
 * it is.  Takes no lock unless the store has a source.
 */
enum slab_fault slab_round_fault(struct slab_store *store, void *p);

/*
 * Of a store that is checked: p, which was just taken, goes to the program;
 * does the program hold p; and the program frees p, FINE if it held it.  See
 * slab_owner.c.
 */
void slab_hold(struct slab_store *store, void *p);
bool slab_is_held(struct slab_store *store, void *p);
enum slab_fault slab_unhold(struct slab_store *store, void *p);

/*
 * A quantum cache, with its arena's gate closed: cut up the slabs that are
 * partly used.  Their chunks in use are pieces of the arena then.
 */
void slab_dissolve(struct slab_store *store);

/*
 * Releases empty slabs beyond keep.  A stable store keeps them and calls
 * want_retire().
 */
void slab_reap(struct slab_store *store, unsigned keep);

/*
 * Releases the empty slabs that were not taken from since the last call, or
 * calls want_retire() if the store is stable.  Returns whether a later call may
 * find more.
 */
bool slab_reap_unused(struct slab_store *store);

/*
 * The number of empty slabs to keep, for slab_retire(), since a release of
 * others was asked for; UINT_MAX if none was.  Racy unless the caller alone
 * retires slabs of the store.
 */
unsigned slab_retire_wanted(const struct slab_store *store);

/*
 * The first step to release slabs of a stable store: retires the empty slabs
 * beyond keep, so that no allocation finds them.  UINT_MAX retires none.
 * Returns the number of the last batch of retired slabs, or 0 if no slab is
 * retired.
 */
uint32_t slab_retire(struct slab_store *store, unsigned keep);

/*
 * The second step: destructs and destroys the slabs of this batch and of all
 * earlier ones, or none if batch is 0.  The caller has waited for a grace period
 * of every flavour of readers that began after slab_retire() had returned the
 * batch.
 */
void slab_end_retired(struct slab_store *store, uint32_t batch);

/*
 * Whole pages in which no chunk is in use, of slabs that are half empty at
 * least: to the kernel, at most about limit bytes; returns how many.  By one
 * thread at a time.
 */
size_t slab_sweep(struct slab_store *store, size_t limit);

/*
 * Gives back the whole pages in which no chunk is in use, of every slab that
 * is partly used, and returns the bytes.  By one thread at a time.
 */
size_t slab_sweep_all(struct slab_store *store);

/* Bytes of all stores that have gone so and were not taken again. */
size_t slab_swept_bytes(void);

size_t slab_used(struct slab_store *store);
size_t slab_total(struct slab_store *store); /* chunks */

bool slab_store_check(struct slab_store *store);

#endif
