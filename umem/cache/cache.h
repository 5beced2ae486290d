/* cache.h - object caches; see cache.c */
#ifndef UMEM_CACHE_H
#define UMEM_CACHE_H

#include "magazine/magazine.h"
#include "umem/cache/limit.h"
#include "umem/cache/quarantine.h"
#include "umem/cache/reserve.h"
#include "umem/base/size_class.h"
#include "umem/slab/slab.h"
#include "umem/umem.h"

/* Sums over all caches; see cache_walk.h. */
enum tally {
	TALLY_DEPOTS,
	TALLY_HOLES,
	TALLIES
};

struct umem_cache;

/*
 * The functions by which a cache gets objects that its magazines do not have:
 * from slabs (slab_backend.c), or from functions of the program (import.c).
 */
struct cache_backend {
	/*
	 * NULL, or close and open the gate that excludes moves of batches
	 * between magazines and the backend; see import.c.
	 */
	void (*close_gate)(struct umem_cache *cache);
	void (*open_gate)(struct umem_cache *cache);
	/*
	 * Returns how many of want objects take() should be asked for; 0 if it
	 * has none.  Racy.
	 */
	unsigned (*nready)(struct umem_cache *cache, unsigned want);
	/*
	 * take() takes up to n objects that are constructed, with the gate
	 * closed, and returns their number.  take_bulk() is for a bulk request,
	 * with the gate open.
	 */
	unsigned (*take)(struct umem_cache *cache, void **objects, unsigned n);
	unsigned (*take_bulk)(
	    struct umem_cache *cache, void **objects, unsigned n);
	/*
	 * Takes one object, and constructs it if necessary; may have others
	 * ready then for take(), up to want in all.  Returns NULL if there is
	 * no memory or the program has refused.  The gate is closed.
	 */
	void *(*take_one)(struct umem_cache *cache, unsigned want);
	/*
	 * Gives n objects back, with the gate closed.  Ends the program after
	 * misuse, with a message that names function.
	 */
	void (*give)(struct umem_cache *cache, void **objects, unsigned n,
	    const char *function);
	/* Releases all memory or resources that are not in use. */
	void (*reap)(struct umem_cache *cache);
	/*
	 * Releases those that were not used since the last call.  Returns true
	 * if a later call may find more.
	 */
	bool (*update)(struct umem_cache *cache);
	/*
	 * Ends the backend after the magazines were drained.  Returns false if
	 * objects are in use.
	 */
	bool (*end)(struct umem_cache *cache);
};

extern hidden const struct cache_backend slab_backend;

/* Keys: [I] set at creation, [a] atomic, [l] cache_list_lock */
struct umem_cache {
	/*
	 * [a] The header that the sections of the fast paths use, as its
	 * distance in bytes from header 0 of CPU 0; see cache_choose_fast().
	 */
	uintptr_t fast_at;
	bool has_magazines; /* [I] */
	bool destroyed;     /* [a] by the program, while objects were in use */
	/* [a] Objects may be samples; see umem/profile/sample_object.c. */
	bool may_be_sampled;
	/* [a] The fast paths are closed because objects may be samples. */
	bool is_sampled;
	uint32_t nsamples; /* [a] objects that are samples; no slab has them */
	unsigned class;    /* [I] number in class_cache; 0: none */
	unsigned flags;    /* [I] UMC_* */
	unsigned debug;    /* [I] UMF_*; see debug.h */
	bool calls_out;    /* [I] releasing a slab calls the program */
	/*
	 * [I] Freeing an object may call the program: release() of an import
	 * cache with a limit of idle resources, the destructor of a cache with
	 * patterns, or a function of a source.
	 */
	bool free_calls_out;
	bool has_heap_slabs;                 /* [I] its slabs are of the heap */
	const struct cache_backend *backend; /* [I] */
	struct import *import; /* [I] the resources of an import cache */
	uint32_t tag_bytes;    /* [I] of the tag in a chunk; 0: none */
	size_t tag_offset;     /* [I] of the tag in a chunk */
	bool checks_slack;     /* [I] a pattern is behind the requested size */
	bool has_inner_tags;   /* [I] chunks of the usual size end with a tag */
	/* [I] Bytes of a free buffer that hold a pattern, and the pattern. */
	size_t pattern_bytes;
	uint64_t free_pattern;
	struct magazine_layer mag;
	struct quarantine quarantine;  /* freed buffers that wait */
	size_t bufsize;                /* [I] bytes, as requested */
	size_t align;                  /* [I] */
	umem_constructor_t *construct; /* [I] */
	umem_destructor_t *destruct;   /* [I] */
	umem_reclaim_t *reclaim;       /* [I] */
	void *priv;                    /* [I] for these three */
	size_t nused_at_update;        /* in use at the last update */
	uint32_t nacquired_at_update;  /* slabs.nacquired */
	uint32_t nidle_updates;        /* updates in a row without a visit */
	unsigned nidle_own;            /* for cache_reclaim_idle() */
	uint64_t nfailed;      /* [a] requests that failed, by umem/malloc */
	uint64_t nrefused;     /* [a] objects that the constructor refused */
	struct list link;      /* [l] */
	size_t tally[TALLIES]; /* [l] its part of each sum, when last asked */
	uint32_t npins;        /* [l] walks that work on it; see cache_walk.c */
	struct defer *defers;  /* [a] deferred frees that wait; see defer.h */
	char name[UMEM_CACHE_NAMELEN + 1]; /* [I] */
	struct slab_store slabs __attribute__((aligned(CACHE_LINE)));
	struct limit limit __attribute__((aligned(CACHE_LINE)));
	struct cache_reserve reserve;
};

/*
 * All caches.  A cache is complete when it enters the list, with
 * cache_list_lock held: from then on upkeep works on it.  cache_walk.c says how
 * a cache leaves.
 */
extern hidden struct list cache_list;

/* [cache_list_lock] caches that were destroyed while objects were in use */
extern hidden struct list cache_destroyed_list;
extern hidden struct lock cache_list_lock;

/* [cache_list_lock] Number of caches in the list that serve no size class. */
extern hidden size_t cache_nothers;

/* Do caches that are created from now on get magazines? */
extern hidden bool cache_use_magazines;

/*
 * The caches of the size classes by their numbers (size_class.h); 0 is unused.
 * NULL: no object has been requested yet.
 */
extern hidden struct umem_cache
    *class_cache[NODES * NODE_CLASSES]; /* [a] set once */

/* Creates the cache with a number.  Returns NULL if there is no memory. */
struct umem_cache *class_cache_make(unsigned number);

static inline struct umem_cache *
class_cache_if_made(unsigned number)
{
	/* Acquire; pairs with the release in class_cache_make(). */
	return load_acquire(&class_cache[number]);
}

/* Returns the cache with a number, or NULL if there is no memory for it. */
static inline struct umem_cache *
class_cache_of(unsigned number)
{
	struct umem_cache *cache = class_cache_if_made(number);

	return likely(cache != NULL) ? cache : class_cache_make(number);
}

/*
 * The alignment that umem_alloc() promises for a size, which a block has also
 * if it is debugged, in spite of its tag.
 */
size_t class_align(size_t bytes);

/*
 * Creates class size_classes.n + 1, for blocks of zero bytes, if they are
 * debugged.  Its slabs are addresses without memory, so an access faults.
 */
bool class_zero_make(void);

static inline struct umem_cache *
class_zero(void)
{
	return class_cache_if_made(size_classes.n + 1);
}

/*
 * Creates a cache from the template.  For a size class, the caller holds
 * cache_list_lock; otherwise not.  Returns NULL if there is no memory.
 */
struct umem_cache *cache_create(const char *name,
    const struct slab_layout *layout, vmem_t *source,
    const struct umem_cache *template);

/*
 * Ends a cache whose reserve has been dropped.  If objects are in use, it stays
 * poisoned, and a message says so.
 */
void cache_destroy(struct umem_cache *cache);

/*
 * Close and open the gate of the backend, if it has one.  Every function that
 * moves a batch of objects of such a cache does so with the gate closed.
 */
static inline void
cache_close_gate(struct umem_cache *cache)
{
	if (unlikely(cache->backend->close_gate != NULL))
		cache->backend->close_gate(cache);
}

static inline void
cache_open_gate(struct umem_cache *cache)
{
	if (unlikely(cache->backend->open_gate != NULL))
		cache->backend->open_gate(cache);
}

/*
 * Tell a memory checker that the program allocates or frees an object.  Only
 * for a cache that is watched.
 */
void cache_tell_alloc(struct umem_cache *cache, void *object);
void cache_tell_free(struct umem_cache *cache, void *object);

/*
 * Selects the header that the fast paths use.  That is the header of the
 * cache's magazines; or header 0, which refuses, if the cache is debugged, if
 * it counts objects in use (limit.c), if its reserve lacks objects (reserve.c),
 * or if its objects may be samples (sample_object.c).  Called at the start, and
 * then with limit_lock held.
 */
void cache_choose_fast(struct umem_cache *cache);

/* Distance in bytes of the header of the cache's magazines from header 0. */
static inline uintptr_t
cache_header_at(const struct umem_cache *cache)
{
	return (uintptr_t)cache->mag.hot - (uintptr_t)cpu_header_none();
}

/* Relaxed: it does no harm if a call uses the previous header. */
static inline uintptr_t
cache_fast_at(const struct umem_cache *cache)
{
	return load_relaxed(&cache->fast_at);
}

/* Counts a request for n objects; see limit_take_slow(). */
static inline int
cache_count(struct umem_cache *cache, size_t n, int flags)
{
	return likely(!cache->limit.counts) ? 0
					    : limit_take_slow(cache, n, flags);
}

/* Subtracts n objects that cache_count() has counted. */
static inline void
cache_count_off(struct umem_cache *cache, size_t n)
{
	if (unlikely(cache->limit.counts) && n != 0)
		limit_give_slow(cache, n);
}

/* Racy estimate: does the reserve of the cache lack objects? */
static inline bool
reserve_is_short(const struct umem_cache *cache)
{
	return load_relaxed(&cache->reserve.nready) <
	       load_relaxed(&cache->reserve.want);
}

/*
 * Allocates an object after the section has failed.  Returns NULL if there is
 * no memory or the constructor has refused.  May add flags to *work: WORK_POLL,
 * WORK_MARKED.
 */
void *cache_alloc_slow(struct umem_cache *cache, unsigned *work);

/*
 * Frees an object after the section has failed.  Messages contain function, its
 * name: "free", "umem_cache_free".  Returns false after a report of misuse.
 * May add flags to *work: WORK_POLL, WORK_TICKED.
 */
bool cache_free_slow(struct umem_cache *cache, void *object,
    const char *function, unsigned *work);

/* The same without the checks of a debugged cache, for its free chunks. */
void *cache_alloc_unchecked(struct umem_cache *cache, unsigned *work);
void cache_free_unchecked(struct umem_cache *cache, void *object,
    const char *function, unsigned *work);

/* Aborts if the cache was destroyed while objects were in use. */
void cache_check_poison(struct umem_cache *cache, const char *function);

/*
 * Names the function by which the program usually frees objects of the cache.
 */
const char *cache_freed_by(const struct umem_cache *cache);

/*
 * Allocates up to n objects and returns their number.  That is 0 only if there
 * is no memory or the constructor has refused.
 */
size_t cache_get_bulk(struct umem_cache *cache, void **objects, size_t n);

/*
 * Frees n objects, and ignores those that are NULL.  Messages name function,
 * the function of the program's call.  Returns the number freed.
 */
size_t cache_put_bulk(struct umem_cache *cache, void *const *objects, size_t n,
    const char *function);

/*
 * cache_take_back() puts a magazine into the depot of a cache that has
 * magazines.  cache_take_back_one() returns one object to its slab; its
 * messages name function, the function of the program's call.
 */
void cache_take_back(struct umem_cache *cache, struct magazine *mag);
void cache_take_back_one(
    struct umem_cache *cache, void *object, const char *function);

/*
 * Flushes all magazines to the slabs.  Returns false if some could not be
 * reached.  unused: no other thread uses the cache any more.
 */
bool cache_drain(struct umem_cache *cache, bool unused);

/*
 * Flushes all cached objects to the slabs, and releases empty slabs to the
 * arena.
 */
void cache_reap(struct umem_cache *cache);

/*
 * Flushes the surplus since the last update: magazines to the slabs, empty
 * slabs to the arena.  Returns whether there was any, or will be.  may_call
 * permits destructors, and functions of the program that release memory of a
 * source; without it, slabs that need these stay.
 */
bool cache_update(struct umem_cache *cache, bool may_call);

/*
 * Purges free pages of slabs that are at least half empty, at most *limit
 * bytes, which are subtracted from *limit, if the slabs' lock was not taken for
 * age updates.  Returns true if there may be something to purge now or soon.
 * Only the worker may call it.
 */
bool cache_purge_idle(struct umem_cache *cache, unsigned age, size_t *limit);

/*
 * Flushes the depot's surplus to the slabs and releases empty slabs.  For large
 * classes of malloc(), and those with magazines that take budget, it also
 * flushes the magazines of this CPU that were idle since the last call.
 * Returns whether there was any.  Only the worker may call it (worker.h).  It
 * calls no function of the program: it skips caches that would.
 */
bool cache_reclaim_idle(struct umem_cache *cache);

/*
 * A class counts as large from this object size on, in bytes: its memory is
 * worth more than the work of finding it.
 */
#define LARGE_CLASS_MIN (128 * KIB)

/*
 * cache_depot_bytes() returns about how many bytes of objects in the depot can
 * be reclaimed for other sizes.  It is 0 for constructed objects and for memory
 * that is not the heap's.  cache_flush_depot() reclaims them and returns the
 * bytes.
 */
size_t cache_depot_bytes(struct umem_cache *cache);
size_t cache_flush_depot(struct umem_cache *cache);

/*
 * Moves all cached objects to the backend, at one moment, for a shortage.  The
 * gate is closed.
 */
void cache_drain_idle(struct umem_cache *cache);

/*
 * Flushes a chain of magazines: returns the rounds to the slabs and deletes the
 * magazines.
 */
void cache_flush(struct umem_cache *cache, struct magazine *chain);

#endif
