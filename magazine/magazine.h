/* magazine.h - the layer's door: one cache's magazines; see magazine.c */
#ifndef MAGAZINE_MAGAZINE_H
#define MAGAZINE_MAGAZINE_H

#include "magazine/cpu.h"
#include "magazine/depot.h"

/* Visits of a lock, and how many of them found it taken; modulo 2^32. */
struct magazine_visits {
	uint32_t n;
	uint32_t nwaited;
};

/* Keys: [I] set at creation, [a] atomic */
struct magazine_layer {
	struct cpu_hot *hot;   /* [I] headers of CPU 0 */
	struct cpu_cold *cold; /* [I] */
	struct depot *more;    /* [I] all shards but the first */
	uint32_t rounds;       /* [a] capacity of magazines made from now on */
	uint32_t pressure;     /* [a] overflows that followed an underflow */
	uint32_t depot_bytes;  /* [a] worth of rounds kept in the depot */
	uint32_t object_bytes; /* [I] */
	struct magazine_visits visits; /* of the depot until an update */
	uint16_t rounds_max;           /* [I] without a crowd or a loan */
	uint16_t rounds_crowded;       /* [I] where CPUs queue */
	uint16_t rounds_most;          /* [I] with a loan */
	uint8_t flowed;      /* [a] 1: many exchanges since the last update */
	uint8_t overflowed;  /* [a] 1: some went to the slabs since a refill */
	uint16_t nshards;    /* [I] of the depot; 0: no layer */
	uint16_t shard_cpus; /* [I] that share a shard */
	/* [I] The depot keeps no full magazine; set before the others. */
	bool keeps_none;
	struct depot depot; /* the first */
};

/* What a visit reads besides is one line. */
_Static_assert(offsetof(struct magazine_layer, depot) == CACHE_LINE, "one");

static inline struct depot *
magazine_shard(struct magazine_layer *layer, unsigned i)
{
	return i == 0 ? &layer->depot : &layer->more[i - 1];
}

enum magazine_result {
	MAGAZINE_OK,
	MAGAZINE_EMPTY, /* get: no round anywhere in the layer */
	MAGAZINE_FULL,  /* put: no empty magazine to be had */
	MAGAZINE_NONE,  /* the same, and this CPU has not had any yet */
	MAGAZINE_TWICE, /* put: the object is one of those freed last */
	MAGAZINE_BYPASS /* the header is owned by somebody: go past */
};

/*
 * object_bytes says how much memory a round ties down; rounds_max 0 leaves
 * the largest magazine to the byte budget; guard is for the headers.  False:
 * no memory.  The other has the headers of that number, which were kept.
 */
bool magazine_layer_init(struct magazine_layer *layer, size_t object_bytes,
    unsigned rounds_max, struct cpu_guard guard);
void magazine_layer_init_at(struct magazine_layer *layer, unsigned header,
    size_t object_bytes, struct cpu_guard guard);

/* Gives the headers back; the layer was drained and nobody uses it. */
void magazine_layer_end(struct magazine_layer *layer);

/* Locks that were waited for between updates, for larger magazines; an option. */
extern unsigned magazine_max_contention;

/* Bytes of objects in a magazine, and in a depot, below 4 GiB; options. */
extern size_t magazine_bytes_most;
extern size_t magazine_depot_most;

/* Shards of each depot; 0: one for every 8 CPUs.  An option. */
#define MAGAZINE_SHARDS_MOST 1024
extern unsigned magazine_depot_shards;

/* What the fast path could not do. */
enum magazine_result magazine_get(struct magazine_layer *layer, void **object);

/* What a free should see to afterwards. */
#define MAGAZINE_SURPLUS 1u /* the depot has more than it should */
#define MAGAZINE_TICKED  2u /* as cpu_ticked() says */

/*
 * The same for a free.  *spare, if not NULL, is a magazine that may be taken
 * (then *spare is NULL), an empty one, or after MAGAZINE_NONE one with rounds
 * that are to be used before the object.  The last two are added to *news.
 */
enum magazine_result magazine_put(struct magazine_layer *layer, void *object,
    struct magazine **spare, unsigned *news);

/*
 * Takes up to n rounds of this CPU and the depot under one ownership of the
 * header, whole magazines by pointer.  Returns how many; 0: there are none, or
 * the header is owned by another thread.  n is at most MAGAZINE_BULK.
 */
#define MAGAZINE_BULK 1024u
unsigned magazine_get_bulk(
    struct magazine_layer *layer, void **objects, unsigned n);

/*
 * Puts the first objects of *n, which is at most MAGAZINE_BULK and then says
 * how many they were.  spare and *news are as for magazine_put().
 *	MAGAZINE_OK	all up to the first that is NULL or was freed twice
 *	MAGAZINE_FULL	the next needs an empty magazine
 *	MAGAZINE_TWICE	none: the first is NULL or one of those freed last
 *	MAGAZINE_BYPASS	none: the header is owned by another thread
 */
enum magazine_result magazine_put_bulk(struct magazine_layer *layer,
    void *const *objects, unsigned *n, struct magazine **spare, unsigned *news);

/* [a] 1: a magazine of any CPU and cache was exchanged since this was 0. */
extern uint32_t magazine_exchanged;

/*
 * Is told of the rounds of a magazine that a push has found full: of the first
 * MAGAZINE_CHECKED on each CPU, and then of one in MAGAZINE_CHECK_EACH.  The
 * CPU's header is owned meanwhile, so it may not take rounds or give them
 * back, and takes no lock above those of the slabs.  NULL: nobody is.
 */
#define MAGAZINE_CHECKED    32
#define MAGAZINE_CHECK_EACH 64
extern void (*magazine_check)(
    struct magazine_layer *layer, void *const *rounds, unsigned n);

/* A magazine of the present size, empty; NULL: no memory. */
struct magazine *magazine_new(struct magazine_layer *layer);
void magazine_delete(struct magazine *mag);

/* An empty magazine from the depot, or a new one. */
struct magazine *magazine_empty(struct magazine_layer *layer);

/* Load a magazine with rounds on this CPU, or else put it in the depot. */
void magazine_install(struct magazine_layer *layer, struct magazine *mag);

/*
 * Puts a magazine with or without rounds into the depot, the shards in turn.
 * Returns whether the depot has more full magazines now than it should keep.
 */
bool magazine_give(struct magazine_layer *layer, struct magazine *mag);

/*
 * A full magazine that the depot has no room for, to be emptied into the
 * slabs, or NULL.
 */
struct magazine *magazine_surplus(struct magazine_layer *layer);

/* Rounds to ask of the slabs for this CPU's next magazine. */
unsigned magazine_refill_want(struct magazine_layer *layer);

/*
 * The number of objects, of n, before the first that is NULL or equals one of
 * the two before it.
 */
unsigned magazine_distinct(void *const *objects, unsigned n);

/* The slabs are asked for rounds otherwise than for a magazine. */
void magazine_refilled(struct magazine_layer *layer);

/*
 * Takes every magazine of CPUs and depot, as a chain.  False: other CPUs
 * could not be stopped, the chain has the depot's only.
 */
bool magazine_drain(struct magazine_layer *layer, struct magazine **chain);

/*
 * Takes every magazine of CPUs and depot, as a chain, at one moment: waits for
 * threads that are exchanging magazines.  False: as cpu_drain_all().
 */
bool magazine_drain_all(struct magazine_layer *layer, struct magazine **chain);

/* Rounds of this CPU and in the depot, about. */
size_t magazine_glance(struct magazine_layer *layer);

/* Takes the magazines of this CPU and the depot, as a chain. */
void magazine_take_near(struct magazine_layer *layer, struct magazine **chain);

/*
 * Takes what was not used since the last update, and resizes.  behind are the
 * visits since then where the rounds come from.
 */
void magazine_update(struct magazine_layer *layer,
    struct magazine_visits behind, struct magazine **chain);

/* Takes what the depot was not asked for since this or an update was last. */
void magazine_idle(struct magazine_layer *layer, struct magazine **chain);

/* Bytes that the depot has, about; takes all magazines of it. */
size_t magazine_in_depot(struct magazine_layer *layer);
void magazine_empty_depot(
    struct magazine_layer *layer, struct magazine **chain);

/*
 * Takes the magazines of this CPU if they have as many rounds as *nseen says,
 * which is set to what they have now.
 */
void magazine_idle_near(
    struct magazine_layer *layer, struct magazine **chain, unsigned *nseen);

/* Capacity for new magazines, up or down a step. */
void magazine_grow(struct magazine_layer *layer);
void magazine_shrink(struct magazine_layer *layer);

/* Bytes that layers hold beyond magazine_bytes_most, for a CPU. */
size_t magazine_lent(void);

/* Rounds in the whole layer; exact when nothing runs. */
size_t magazine_rounds(struct magazine_layer *layer);

/* Magazines into or out of the depot, so far, modulo 2^32. */
uint32_t magazine_moved(struct magazine_layer *layer);

#endif
