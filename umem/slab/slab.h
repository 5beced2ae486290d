/* slab.h - slabs of one cache; see slab.c */
#ifndef UMEM_SLAB_H
#define UMEM_SLAB_H

#include "umem/slab/slab_layout.h"
#include "umem/umem.h"
#include "vmem/list.h"
#include "vmem/lock.h"

/*
 * The number of lists of partly used slabs, ordered by how full they are: list
 * 0 has the fullest.
 */
#define SLAB_BINS 4

struct slab_store;

/*
 * The description of one slab.  Keys: [I] set at creation, [s] store->lock, [a]
 * atomic, written by the holder of the lock unless slab.c says otherwise.  The
 * first cache line has all members that a take or a give needs besides the
 * bits.
 */
struct slab {
	struct list link;         /* [s] in a bin, or full, empty or retired */
	struct slab_store *store; /* [I] */
	uintptr_t span;           /* [I] */
	uintptr_t first;          /* [I] span + colour */
	uint32_t nfree;           /* [s] */
	uint32_t high;            /* [a] chunks from here on were never taken */
	uint32_t hint;            /* [s] words below this have no free chunk */
	uint16_t bin;             /* [s] */
	uint16_t was_purged;      /* [s] 1: no chunk was freed since a purge */
	void *records;         /* [I] a bufctl of debug.h per chunk, or NULL */
	struct slab *next;     /* [s] in a hash chain, or to be destroyed */
	uint64_t purged_parts; /* [s] bit map of the parts that are purged */
	uint32_t nraw;         /* [s] free chunks that are not constructed */
	uint32_t batch;        /* [s] of a retired slab; see slab_retire.c */
	/*
	 * [a] One bit map per property of a chunk, one after the other: 1 if
	 * the chunk is free; if the store constructs, 1 if the chunk is
	 * constructed.
	 */
	uint64_t bits[];
};

_Static_assert(offsetof(struct slab, next) == CACHE_LINE, "one line");

/*
 * A set of chunks of one word of a slab's bits, on their way from the slab or
 * to it.  It lies on the stack, where tools find it by the pointer to its slab
 * (tools/inspect/sites/leaks.c).
 */
struct slab_claim {
	struct slab *slab;
	uint64_t mask;
	uint32_t word;   /* of slab->bits */
	uint32_t n;      /* number of bits set in mask */
	uintptr_t first; /* when giving: address of the slab's first chunk */
};

/*
 * Claims per acquisition of the lock: the lock is held for 100 ns, and the
 * claims take 1 KiB of a stack.
 */
#define SLAB_CLAIMS 32

/*
 * The most bytes of empty slabs that a thread unlists at once, to free them
 * without the lock; a single slab may be larger.  A child of fork() gets none
 * of those that another thread has in hand.
 */
#define SLAB_CHAIN_BYTES (1 * MIB)

struct slab_claims {
	unsigned n;
	unsigned nchunks;
	struct slab_claim claim[SLAB_CLAIMS];
};

/* The functions of the owner of a store; called without a lock. */
struct slab_owner {
	/* Called before the slab of a constructed chunk is destroyed. */
	void (*destruct)(struct slab_store *store, void *object);
	/* Called if a type-stable store has slabs to retire. */
	void (*want_retire)(struct slab_store *store);
};

/*
 * The slabs of one cache.  Keys: [I] set at creation, [s] lock, [a] lock to
 * write, atomic to read, [u] unlocked, atomic.  The members that every
 * acquisition of the lock writes are on lines of their own, because other
 * threads read the rest before they take the lock.
 */
struct slab_store {
	struct lock lock;   /* rank LOCK_SLAB */
	size_t nused;       /* [a] chunks taken */
	uint32_t nacquired; /* [a] acquisitions of the lock to take or give */
	uint32_t nslabs;    /* [a] */
	uint32_t nempty;    /* [s] */
	uint32_t nunused;   /* [s] minimum of nempty since slab_reap_unused() */
	size_t nraw;        /* [a] free chunks that are not constructed */
	struct list full;   /* [s] */
	struct list empty;  /* [s] */
	struct list partial[SLAB_BINS]
	    __attribute__((aligned(CACHE_LINE))); /* [s] */
	struct slab_layout layout                 /* [I] */
	    __attribute__((aligned(CACHE_LINE)));
	vmem_t *source;        /* [I] NULL: the heap */
	unsigned map_class;    /* [I] size class in the page map */
	uint32_t record_bytes; /* [I] bytes of a bufctl; 0: chunks have none */
	size_t part_bytes; /* [I] bytes of a part, a bit of slab.purged_parts */
	bool constructs;   /* [I] free chunks stay constructed: slab.c */
	bool has_guard_pages; /* [I] spans come from firewall.c */
	bool is_annotated;    /* [I] a memory checker is told: checker.h */
	bool is_unbacked;     /* [I] chunks are address space without memory */
	bool is_type_stable;  /* [I] type-stable; see slab_retire.c */
	uint32_t hash_size;   /* [a] power of two, or 0 */
	const struct slab_owner *owner; /* [I] */
	struct slab **hash;    /* [s] slabs by span, if there is a source */
	struct slab *isolated; /* [s] slab that a purge has isolated */
	size_t colour;         /* [u] of the next slab */
	uint64_t ncreated;     /* [a] slabs ever made */
	const char *name;      /* [I] of the cache, for probes */
	/*
	 * Apart from the lock, because the holder of the lock writes that line.
	 */
	uint32_t ncontended; /* [u] contended acquisitions of the lock */
	/* The members below are of a stable store. */
	uint32_t retire_wanted; /* [a] 0: none; else 1 + empty slabs to keep */
	uint32_t nretired;      /* [a] */
	uint32_t last_batch;    /* [s] number of the newest batch */
	struct list retired;    /* [s] by batch, oldest first */
};

/* The record of chunk i of a slab; the store has records. */
static inline void *
slab_record(const struct slab *slab, size_t i)
{
	return (char *)slab->records + i * slab->store->record_bytes;
}

/*
 * Initializes a store without slabs.  source is the arena of its spans, NULL
 * for the heap; map_class is its size class in the page map, or 0.  If it
 * constructs, the store keeps free chunks constructed.
 */
void slab_store_init(struct slab_store *store, const struct slab_layout *layout,
    vmem_t *source, unsigned map_class, bool constructs);

/*
 * Ends the store; no other thread may use it.  Destroys every slab that has no
 * chunk taken, and destructs the free constructed chunks of the other slabs.
 * Returns true if no slab is left.
 */
bool slab_store_end(struct slab_store *store);

/* Takes the lock for a batch, and counts contention. */
void slab_lock_counted(struct slab_store *store);

/*
 * Takes up to n chunks, and stores the lowest address last, so that a stack of
 * them returns them in address order.  A store that constructs takes only
 * chunks that are free and constructed, and creates no slab for more.  Returns
 * the number of chunks; 0 means that there is no memory, or no constructed
 * chunk.
 */
unsigned slab_take(struct slab_store *store, void **chunks, unsigned n);

/*
 * Takes one chunk, or returns NULL if there is no memory.  Sets *raw to whether
 * the caller has to construct the chunk.  After that, the caller calls
 * slab_constructed(), or slab_give_raw() if the constructor failed.
 */
void *slab_take_one(struct slab_store *store, bool *raw);
void slab_constructed(struct slab_store *store, void *chunk);

/*
 * Racy estimate of the number of chunks in the slabs that are free and
 * constructed.
 */
size_t slab_nready(const struct slab_store *store);

enum slab_fault {
	SLAB_FINE,
	SLAB_FOREIGN,  /* not in a slab of this store */
	SLAB_INTERIOR, /* not the start of a chunk */
	SLAB_FREE,     /* already free */
	SLAB_NEVER     /* never allocated */
};

/*
 * Gives n chunks back to their slabs.  Stops at the first that is not a chunk
 * of this store in use, sets *bad to it and returns its fault.  All chunks
 * before that are in their slabs then.
 */
enum slab_fault slab_give(
    struct slab_store *store, void **chunks, unsigned n, void **bad);

/*
 * Gives one chunk back that is not constructed: its constructor failed, or the
 * caller has destructed it.
 */
void slab_give_raw(struct slab_store *store, void *chunk);

/*
 * Makes the span of a slab that has one chunk a span of the caller, who has
 * the chunk.  Returns false if the slab has other chunks, if the chunk is free,
 * or if its memory needs more than the heap's functions.
 */
bool slab_detach(struct slab_store *store, void *chunk);

/*
 * Finds the chunk at p, whether it is free or not.  Returns SLAB_FINE; or
 * SLAB_INTERIOR, and sets *i to the chunk that contains p; or SLAB_FOREIGN.  If
 * the chunk is free, its slab may be destroyed at any time.
 */
enum slab_fault slab_find_chunk(
    struct slab_store *store, void *p, struct slab **slab, unsigned *i);

/*
 * Can p be a chunk that is out of its slab?  Returns SLAB_FINE, or the fault of
 * a free of p.  Takes no lock unless the store has a source.
 */
enum slab_fault slab_round_fault(struct slab_store *store, void *p);

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
 * earlier ones, or none if batch is 0.  The caller has waited for a grace
 * period of every flavour of readers that began after slab_retire() had
 * returned the batch.
 */
void slab_end_retired(struct slab_store *store, uint32_t batch);

/*
 * Purges whole pages in which no chunk is in use, in slabs that are partly
 * used, the emptiest first.  Stops after about limit bytes, and returns the
 * bytes purged.  Only the worker may call it (worker.h).
 */
size_t page_purge(struct slab_store *store, size_t limit);

/*
 * The bytes of all stores that page_purge() has purged and that were not taken
 * again.
 */
size_t page_purge_bytes(void);

/*
 * Calls f for each slab that may have chunks taken, until it returns false.
 * Returns whether every call returned true.  The caller holds the lock; f takes
 * and gives no chunk.
 */
bool slab_each_used_locked(struct slab_store *store,
    bool (*f)(struct slab *slab, void *arg), void *arg);

/*
 * Stores the addresses of up to n chunks that are taken, and returns how many.
 * Takes the lock.
 */
unsigned slab_some_used(struct slab_store *store, void **chunks, unsigned n);

/* The chunks that are taken, and all chunks, free or not.  Racy. */
size_t slab_used(struct slab_store *store);
size_t slab_total(const struct slab_store *store);

/*
 * Bytes that a slab has of the heap's memory: none if its span comes from an
 * arena or is only address space, and those before the guard page if it has
 * one.
 */
size_t slab_memory(const struct slab_store *store);

/*
 * Returns whether the invariants of the store hold; see slab.c.  Takes the
 * lock.
 */
bool slab_store_check(struct slab_store *store);

#endif
