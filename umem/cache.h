/* cache.h - object caches; see cache.c */
#ifndef UMEM_CACHE_H
#define UMEM_CACHE_H

#include "magazine/magazine.h"
#include "umem/import.h"
#include "umem/limit.h"
#include "umem/quarantine.h"
#include "umem/reserve.h"
#include "umem/size_class.h"
#include "umem/slab.h"
#include "umem/umem.h"
#include "vmem/hooks.h"

/* Sums over all caches; see worker.h. */
enum tally {
	TALLY_DEPOTS,
	TALLY_HOLES,
	TALLIES
};

/* Keys: [I] set at creation, [a] atomic, [l] cache_list_lock */
struct umem_cache {
	/*
	 * [a] The header for the sections of the fast paths, as its distance
	 * from header 0 of CPU 0; see cache_choose_fast().
	 */
	uintptr_t fast_at;
	bool has_magazines; /* [I] */
	bool destroyed;     /* by the program, with objects still out */
	unsigned class;     /* [I] size class, 0 if none */
	unsigned flags;     /* [I] UMC_* */
	unsigned debug;     /* [I] UMF_*; see debug.h */
	bool calls_out;     /* [I] to release a slab calls the program */
	/* [I] What supplies an import cache, which has no slabs; or NULL. */
	struct import *import;
	bool tagged;       /* [I] a struct buftag is behind each buffer */
	size_t tag_offset; /* [I] of the tag in a chunk */
	/* [I] Bytes of a free buffer that hold a pattern, and that pattern. */
	size_t pattern_bytes;
	uint64_t free_pattern;
	struct magazine_layer mag;
	struct quarantine quarantine;            /* what it holds back */
	size_t bufsize;                          /* [I] as asked for */
	size_t align;                            /* [I] */
	umem_constructor_t *construct;           /* [I] */
	umem_destructor_t *destruct;             /* [I] */
	umem_reclaim_t *reclaim;                 /* [I] */
	void *priv;                              /* [I] for the three */
	size_t nused_at_update;                  /* chunks out of slabs, then */
	struct magazine_visits visits_at_update; /* of the slabs */
	uint32_t nquiet;       /* updates since the last visit */
	unsigned nnear;        /* for cache_make_room() */
	uint64_t nfailed;      /* [a] allocations that found no memory */
	uint64_t nrefused;     /* [a] objects that the constructor refused */
	struct list link;      /* [l] */
	size_t tally[TALLIES]; /* [l] its part of each sum, when last asked */
	uint32_t nvisitors;    /* [l] threads in visit_some_caches() ... */
	uint32_t visited;      /* [l] ... in the process of this number */
	struct defer *defers;  /* [a] of frees that wait; see defer.h */
	char name[UMEM_CACHE_NAMELEN + 1]; /* [I] */
	struct slab_store slabs __attribute__((aligned(CACHE_LINE)));
	struct limit limit __attribute__((aligned(CACHE_LINE)));
	struct cache_reserve reserve;
};

/* Every cache. */
extern struct list cache_list;
extern struct lock cache_list_lock;

/* [a] Caches with a source, but not quantum caches of an arena without one. */
extern size_t cache_nsourced;

/* [cache_list_lock] Caches in the list that are no size class's. */
extern size_t cache_nothers;

/* Magazines for caches made from now on? */
extern bool cache_use_magazines;

/*
 * [a] Called when slabs of a type-stable cache (cache->slabs.stable) may be
 * released after a grace period: slab_retire_wanted() then says how many empty
 * slabs to keep.  NULL: nothing waits for grace periods, so no slab of such a
 * cache is released before umem_cache_destroy().
 * The hook is called with no lock held, in any thread that reaps or does upkeep,
 * also within malloc(), and again for the same slabs until slab_retire() has
 * taken them.  It must not wait for a grace period and must call no function of
 * the program.  The cache is not destroyed while the hook runs.
 */
extern void (*cache_retire_hook)(struct umem_cache *cache);

/* UMEM_OPTIONS=checked: each free is compared with slab_owner.c's bits. */
extern bool cache_checked;

/*
 * The cache of each size class; 0 is unused.  NULL: nobody has asked for an
 * object of it yet.  Each has the header of its number.
 */
extern struct umem_cache *class_cache[SIZE_CLASSES + 1]; /* [a] set once */

/* Makes it.  NULL: no memory. */
struct umem_cache *class_cache_make(unsigned class);

static inline struct umem_cache *
class_cache_if_made(unsigned class)
{
	/* Acquire; pairs with the release in class_cache_make(). */
	return __atomic_load_n(&class_cache[class], __ATOMIC_ACQUIRE);
}

/* NULL: no memory. */
static inline struct umem_cache *
class_cache_of(unsigned class)
{
	struct umem_cache *cache = class_cache_if_made(class);

	return likely(cache != NULL) ? cache : class_cache_make(class);
}

/*
 * Class size_classes.n + 1: blocks of no bytes, if they are debugged.  Their
 * slabs are addresses without memory, so an access faults.
 */
bool class_zero_make(void);

static inline struct umem_cache *
class_zero(void)
{
	return class_cache_if_made(size_classes.n + 1);
}

/* For quantum caches: pieces of an arena that are never touched. */
struct umem_cache *cache_create_quantum(
    const char *name, size_t bytes, size_t quantum, vmem_t *arena);

/* For import.c, which provides the resources.  NULL: no memory. */
struct umem_cache *cache_create_import(
    const char *name, struct import *import, unsigned flags);

/*
 * Every function that moves a batch of a quantum cache's pieces does so between
 * these two, which close and open the arena's gate; see vmem/quantum.c.  For an
 * import cache they close and open its own gate; see import.c.  They do nothing
 * for other caches.
 */
static inline void
cache_close_gate(struct umem_cache *cache)
{
	if (unlikely(cache->slabs.quantum))
		vmem_gate_close(cache->slabs.source);
	else if (unlikely(cache->import != NULL))
		import_gate_close(cache);
}

static inline void
cache_open_gate(struct umem_cache *cache)
{
	if (unlikely(cache->slabs.quantum))
		vmem_gate_open(cache->slabs.source);
	else if (unlikely(cache->import != NULL))
		import_gate_open(cache);
}

/*
 * Tells a memory checker of an object that the program gets or frees; the cache
 * is watched.
 */
void cache_tell_alloc(struct umem_cache *cache, void *object);
void cache_tell_free(struct umem_cache *cache, void *object);

/*
 * Lets the fast paths use the header of the cache's magazines.  They get header
 * 0 instead, which refuses, if the cache counts objects in use (limit.c), or
 * if its reserve lacks objects (reserve.c).  Called at the start, and then with
 * limit_lock held.
 */
void cache_choose_fast(struct umem_cache *cache);

/* The distance of the header of the cache's magazines from header 0. */
static inline uintptr_t
cache_header_at(const struct umem_cache *cache)
{
	return (uintptr_t)cache->mag.hot - (uintptr_t)cpu_header_none();
}

/* Relaxed: a call that uses the header of a moment ago does no harm. */
static inline uintptr_t
cache_fast_at(const struct umem_cache *cache)
{
	return __atomic_load_n(&cache->fast_at, __ATOMIC_RELAXED);
}

/* Counts a request for n objects: see limit_take_slow(). */
static inline int
cache_count(struct umem_cache *cache, size_t n, int flags)
{
	return likely(!cache->limit.counts) ? 0
					    : limit_take_slow(cache, n, flags);
}

/* n objects that counted are in use no longer. */
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
	return __atomic_load_n(&cache->reserve.nready, __ATOMIC_RELAXED) <
	       __atomic_load_n(&cache->reserve.want, __ATOMIC_RELAXED);
}

/* What the section could not do.  NULL: no memory, or the constructor failed. */
void *cache_alloc_slow(struct umem_cache *cache);

/*
 * who names the function in messages: "free", "umem_cache_free".  False: misuse
 * that was reported.
 */
bool cache_free_slow(struct umem_cache *cache, void *object, const char *who);

/* Ends the program if the cache was destroyed while it was not empty. */
void cache_check_mines(struct umem_cache *cache, const char *who);

/* The call by which the program frees objects of the cache, most likely. */
const char *cache_freed_by(const struct umem_cache *cache);

/*
 * As magazine_check: the end of the program if a round cannot be what was
 * freed, or is there twice.  See round_check.c.
 */
void round_check(struct magazine_layer *layer, void *const *rounds, unsigned n);

/*
 * Gets some of n objects, one at least unless there is no memory or the
 * constructor failed.  Returns how many.
 */
size_t cache_get_bulk(struct umem_cache *cache, void **objects, size_t n);

/*
 * Frees n objects, of which NULL ones are ignored; who is as for
 * cache_free_slow().  Returns how many were freed.
 */
size_t cache_put_bulk(
    struct umem_cache *cache, void *const *objects, size_t n, const char *who);

/*
 * Takes a magazine into the depot of a cache that has magazines; one object
 * back into its slab.  who is as for cache_free_slow().
 */
void cache_take_back(struct umem_cache *cache, struct magazine *mag);
void cache_take_back_one(
    struct umem_cache *cache, void *object, const char *who);

/* Everything in magazines to the slabs; false: some were out of reach. */
bool cache_drain(struct umem_cache *cache);

/* Everything that is cached back to the slabs, empty slabs to the arena. */
void cache_reap(struct umem_cache *cache);

/*
 * Returns surplus since the last update: magazines to the slabs, empty slabs
 * to the arena.  Returns whether there was any, or will be.  may_call allows
 * destructors, and functions of the program that release memory of a source;
 * without it, slabs that need these stay.
 */
bool cache_update(struct umem_cache *cache, bool may_call);

/*
 * What the depot was not asked for lately to the slabs, with giants of malloc
 * that lay idle on this CPU since the last call, and empty slabs to the arena.
 * True if there was any.  The update's thread calls it, or who does its work.
 * Calls no function of the program: a cache that would is left alone.
 */
bool cache_make_room(struct umem_cache *cache);

/*
 * Bytes of objects in the depot that somebody else may as well have, about; to
 * give them back, and how many that were.  Constructed objects are not meant,
 * and memory that is not the heap's.
 */
size_t cache_in_depot(struct umem_cache *cache);
size_t cache_empty_depot(struct umem_cache *cache);

/* For quantum_cache.c, with the gate closed: see struct quantum_hooks. */
void cache_drain_idle(struct umem_cache *cache);
void *cache_take_idle(struct umem_cache *cache);

/* Gives a chain of magazines back: rounds to the slabs, magazines away. */
void cache_flush(struct umem_cache *cache, struct magazine *chain);

/*
 * Objects that the program holds: taken from slabs, not in a magazine, and not
 * waiting for a grace period.
 */
size_t cache_live(struct umem_cache *cache);

#endif
