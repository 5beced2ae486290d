/* magazine.h - one cache's magazines, the interface of this layer */
#ifndef MAGAZINE_MAGAZINE_H
#define MAGAZINE_MAGAZINE_H

#include "magazine/cpu.h"
#include "magazine/depot.h"

/*
 * The magazines of one cache.
 *
 * Keys: [I] set at creation, [a] atomic, [u] used by the update only
 */
struct magazine_layer {
	struct cpu_hot *hot;   /* [I] hot part of CPU 0's header */
	struct cpu_cold *cold; /* [I] cold part of CPU 0's header */
	struct depot *more;    /* [I] all shards but the first */
	uint32_t rounds; /* [a] rounds for which new magazines have memory */
	uint32_t depot_bytes;  /* [a] limit of the depot, in bytes of objects */
	uint32_t object_bytes; /* [I] */
	uint16_t rounds_base;  /* [I] capacity that takes no budget */
	uint16_t rounds_most;  /* [I] largest capacity */
	uint8_t overflowed;    /* [a] 1: a surplus was flushed since a refill */
	uint16_t nshards;      /* [I] shards of the depot; 0: no layer */
	uint16_t shard_cpus;   /* [I] CPUs that share a shard */
	/* [I] The depot keeps no full magazine; set before the others. */
	bool keeps_none;
	bool is_marked;     /* [I] rounds may be marked (cpu_marks.h) */
	struct depot depot; /* the first shard */
};

/* An exchange reads a single cache line of the layer besides the depot. */
_Static_assert(offsetof(struct magazine_layer, depot) == CACHE_LINE, "one");

/* Shard i of the depot. */
static inline struct depot *
magazine_shard(struct magazine_layer *layer, unsigned i)
{
	return i == 0 ? &layer->depot : &layer->more[i - 1];
}

enum magazine_result {
	MAGAZINE_OK,
	MAGAZINE_MARKED, /* get: the object's round was marked (cpu_marks.h) */
	MAGAZINE_EMPTY,  /* get: this CPU and the depot have no round */
	MAGAZINE_FULL,   /* put: there is no memory for an empty magazine */
	MAGAZINE_TWICE,  /* put: the object is one of those freed last */
	MAGAZINE_BYPASS  /* the header cannot be owned: bypass the magazines */
};

/*
 * Create a layer.  object_bytes is the memory that a round holds.  rounds_max,
 * if not 0, bounds the rounds of a magazine.  guard has the constants of the
 * headers' divisibility test.  Returns false if there is no memory.
 */
bool magazine_layer_init(struct magazine_layer *layer, size_t object_bytes,
    unsigned rounds_max, struct cpu_guard guard);

/*
 * Create a layer with reserved headers, see cpu_header_at(), whose rounds may
 * be marked.  Never fails.
 */
void magazine_layer_init_at(struct magazine_layer *layer, unsigned header,
    size_t object_bytes, struct cpu_guard guard);

/* Destroy a layer that was drained and that no thread uses. */
void magazine_layer_end(struct magazine_layer *layer);

/*
 * The unit of the memory in magazines, and the limit of a depot, in bytes below
 * 4 GiB (options).
 */
extern hidden size_t magazine_bytes_most;
extern hidden size_t magazine_depot_most;

/*
 * Shards of each depot; 0: one for every 4 CPUs (an option).  The most are
 * enough for the 8192 CPUs of the largest kernel.
 */
#define MAGAZINE_SHARDS_MAX 1024
extern hidden unsigned magazine_depot_shards;

/*
 * Allocate an object after a miss of the section.  Results: MAGAZINE_OK,
 * MAGAZINE_MARKED, MAGAZINE_EMPTY, MAGAZINE_BYPASS.  After MAGAZINE_EMPTY the
 * caller takes *want objects from the slabs, or fewer, and passes all but one
 * of them to magazine_install().
 */
enum magazine_result magazine_get(
    struct magazine_layer *layer, void **object, unsigned *want);

/*
 * Decides whether an object is marked (cpu_marks.h) that comes from the slabs
 * and bypasses the magazines.
 */
bool magazine_marks_one(const struct magazine_layer *layer);

/*
 * Work that a slow path leaves to its caller.  A cache flushes the surplus
 * itself.  Whoever called the cache passes the other flags to update_run() when
 * the call is done: in umem/cache by cache_upkeep.run.
 */
#define WORK_SURPLUS 1u /* the depot is above its limit */
#define WORK_POLL    2u /* a refill or a flush: maintenance may be due */
#define WORK_TICKED  4u /* the countdown of pushes has ended */
#define WORK_MARKED  8u /* the allocated round was marked (cpu_marks.h) */

/*
 * Free an object after a miss of the section.  If the call needs another
 * magazine and the depot has none, it creates one.  *spare, if not NULL, is a
 * magazine that the call may load instead, and then sets *spare to NULL.  The
 * rounds in it, if any, are allocated before the object.  The call may add
 * WORK_SURPLUS and WORK_TICKED to *work.
 */
enum magazine_result magazine_put(struct magazine_layer *layer, void *object,
    struct magazine **spare, unsigned *work);

/*
 * Allocate up to n objects, at most MAGAZINE_BULK, from this CPU's magazines
 * and the depot.  Acquires ownership of the header once and exchanges whole
 * magazines.  Returns the number of objects: 0 if there are none or another
 * thread owns the header.  The bound is that of the time for which it is owned.
 */
#define MAGAZINE_BULK 1024u
unsigned magazine_get_bulk(
    struct magazine_layer *layer, void **objects, unsigned n);

/*
 * Free the first of *n objects, at most MAGAZINE_BULK.  *n becomes the number
 * of objects freed.  *work is that of magazine_put().
 *	MAGAZINE_OK	all objects up to the first that is NULL or freed twice,
 *			or up to an exchange that added WORK_SURPLUS
 *	MAGAZINE_FULL	there is no memory for the next magazine
 *	MAGAZINE_TWICE	none: the first is NULL or one of those freed last
 *	MAGAZINE_BYPASS	none: the header cannot be owned
 */
enum magazine_result magazine_put_bulk(struct magazine_layer *layer,
    void *const *objects, unsigned *n, unsigned *work);

/*
 * The newest rounds with which a slow push compares its object, as the section
 * does.
 */
#define MAGAZINE_NEWEST 2

/* Returns whether the object is one of the newest n rounds of a magazine. */
static inline bool
magazine_has_newest(const struct magazine *mag, unsigned nrounds, unsigned n,
    const void *object)
{
	unsigned end = nrounds > n ? nrounds - n : 0;

	while (nrounds > end)
		if (mag->round[--nrounds] == object)
			return true;
	return false;
}

/* Create an empty magazine of this capacity; NULL: no memory. */
struct magazine *magazine_alloc(unsigned capacity);

/* Create an empty magazine of the current capacity; NULL: no memory. */
struct magazine *magazine_new(struct magazine_layer *layer);

/* Delete an empty magazine. */
void magazine_delete(struct magazine *mag);

/* Take an empty magazine from the depot, or create one; NULL: no memory. */
struct magazine *magazine_empty(struct magazine_layer *layer);

/*
 * End of a refill: rounds were taken from the slabs after MAGAZINE_EMPTY.  Load
 * the magazine on this CPU, or, if that is not possible, put it into the depot.
 * mag is NULL if there was only one round.
 */
void magazine_install(struct magazine_layer *layer, struct magazine *mag);

/*
 * Put a magazine, with or without rounds, into the depot, using its shards
 * in turn.  Returns true if the shard is above its limit now.
 */
bool magazine_give(struct magazine_layer *layer, struct magazine *mag);

/*
 * Take a full magazine that is beyond the depot's limit; the caller flushes it
 * to the slabs.  NULL: there is none.
 */
struct magazine *magazine_surplus(struct magazine_layer *layer);

/*
 * The number of objects, of n, before the first that is NULL or equals one of
 * the two before it.
 */
unsigned magazine_distinct(void *const *objects, unsigned n);

/* Called when a bulk request takes objects from the slabs, without a refill. */
void magazine_refilled(struct magazine_layer *layer);

/*
 * Take the magazines of all CPUs and of the depot, as a chain.  Skips headers
 * that another thread owns.  Returns false if this process cannot stop other
 * CPUs; the chain then has only the magazines of the depot.  unused: as in
 * cpu_drain().
 */
bool magazine_drain(
    struct magazine_layer *layer, bool unused, struct magazine **chain);

/*
 * Take the magazines of all CPUs and of the depot at one moment, as a chain.
 * Waits for threads that are exchanging magazines.  Returns false in the cases
 * of cpu_drain_all().
 */
bool magazine_drain_all(struct magazine_layer *layer, struct magazine **chain);

/* Racy estimate of the rounds of a CPU, cpu_now(), and in the depot. */
size_t magazine_rounds_estimate(struct magazine_layer *layer, unsigned cpu);

/*
 * Update: take the magazines that were not used since the last update, as a
 * chain, and adapt the capacities.
 */
void magazine_update(struct magazine_layer *layer, struct magazine **chain);

/*
 * Take the surplus of the depot, as a chain: the magazines that were not used
 * since the last call of this function or the last update.
 */
void magazine_idle(struct magazine_layer *layer, struct magazine **chain);

/* Racy estimate of the bytes of objects in the depot. */
size_t magazine_in_depot(struct magazine_layer *layer);

/* Take all magazines of the depot, as a chain. */
void magazine_empty_depot(
    struct magazine_layer *layer, struct magazine **chain);

/*
 * Take the magazines of this CPU, as a chain, if they have exactly *nseen
 * rounds.  *nseen becomes the number of rounds that they have now.
 */
void magazine_take_own_idle(
    struct magazine_layer *layer, struct magazine **chain, unsigned *nseen);

/* Has the layer magazines that take bytes from the budget of a CPU? */
static inline bool
magazine_has_budget(const struct magazine_layer *layer)
{
	return load_relaxed(&layer->rounds) > layer->rounds_base;
}

/* Increase or reduce the capacity of new magazines by one step. */
void magazine_grow(struct magazine_layer *layer);
void magazine_shrink(struct magazine_layer *layer);

#endif
