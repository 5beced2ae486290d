/* shards.h - the shards of a cache's depot; see shards.c */
#ifndef MAGAZINE_SHARDS_H
#define MAGAZINE_SHARDS_H

#include "magazine/magazine.h"

/* Create the shards.  Without memory for several there is one. */
void shards_init(struct magazine_layer *layer);
void shards_end(struct magazine_layer *layer);

/* Set the limit of full magazines for all shards together. */
void shards_bound(struct magazine_layer *layer, size_t nfull);

/*
 * Trade in, which may be NULL, for a full magazine (for_full) or an empty one,
 * with the own shard first.  *with becomes the shard that supplied it.  Returns
 * NULL if no shard has one; the caller then keeps in.  There are several
 * shards.
 */
cold_path struct magazine *shards_trade(struct magazine_layer *layer,
    unsigned own, bool for_full, struct magazine *in, struct depot **with);

/*
 * Take a full magazine from a shard above its limit.  If another shard is below
 * its limit, move the magazine there and return NULL.  There are several
 * shards.
 */
cold_path struct magazine *shards_surplus(
    struct magazine_layer *layer, unsigned own);

/*
 * Append to *chain the magazines that take() removes from each shard.  Returns
 * true if any of them was full.
 */
typedef void shards_taker(
    struct depot *, struct magazine **, struct magazine **);
bool shards_take(
    struct magazine_layer *layer, shards_taker *take, struct magazine **chain);

/* Racy estimate of the full magazines in all shards. */
size_t shards_nfull(struct magazine_layer *layer);

/* Rounds in the magazines of all shards. */
size_t shards_nrounds(struct magazine_layer *layer);

/* Sums of depot.ncontended and depot.nmoved over all shards. */
uint32_t shards_ncontended(struct magazine_layer *layer);
uint32_t shards_nmoved(struct magazine_layer *layer);

/* The shard of a CPU.  CPU numbers above nrun use the shards in rotation. */
static inline unsigned
shard_of(const struct magazine_layer *layer, unsigned cpu)
{
	return likely(layer->nshards == 1)
		   ? 0
		   : cpu / layer->shard_cpus % layer->nshards;
}

/* The shard of the CPU on which the caller runs. */
static inline unsigned
shard_here(const struct magazine_layer *layer)
{
	return likely(layer->nshards == 1) ? 0 : shard_of(layer, cpu_now());
}

/* The shard of a CPU as a depot. */
static inline struct depot *
depot_of(struct magazine_layer *layer, unsigned cpu)
{
	return magazine_shard(layer, shard_of(layer, cpu));
}

static inline struct depot *
depot_here(struct magazine_layer *layer)
{
	return magazine_shard(layer, shard_here(layer));
}

/* depot_trade_for_full() with the own shard first. */
static inline struct magazine *
trade_for_full(
    struct magazine_layer *layer, unsigned cpu, struct magazine *empty)
{
	struct depot *with;

	if (likely(layer->nshards == 1))
		return depot_trade_for_full(&layer->depot, empty);
	return shards_trade(
	    layer, shard_of(layer, cpu), /* for_full */ true, empty, &with);
}

/*
 * Racy estimate: has the depot a full magazine?  A miss that does not see one
 * asks the slabs, which is never wrong.
 */
static inline bool
depot_seems_full(struct magazine_layer *layer)
{
	if (likely(layer->nshards == 1))
		return __atomic_load_n(
			   &layer->depot.full.head, __ATOMIC_RELAXED) != NULL;
	return shards_nfull(layer) != 0;
}

/* Racy estimate: has the shard more full magazines than its limit? */
static inline bool
depot_is_over(const struct depot *depot)
{
	return __atomic_load_n(&depot->full.n, __ATOMIC_RELAXED) >
	       __atomic_load_n(&depot->full_max, __ATOMIC_RELAXED);
}

/*
 * depot_trade_for_empty() with the own shard first.  Adds MAGAZINE_SURPLUS to
 * *news if the shard is above its limit afterwards.
 */
static inline struct magazine *
trade_for_empty(struct magazine_layer *layer, unsigned cpu,
    struct magazine *full, unsigned *news)
{
	struct depot *with = &layer->depot;
	struct magazine *empty;

	if (likely(layer->nshards == 1))
		empty = depot_trade_for_empty(with, full);
	else
		empty = shards_trade(layer, shard_of(layer, cpu),
		    /* for_full */ false, full, &with);
	if (empty != NULL && depot_is_over(with))
		*news |= MAGAZINE_SURPLUS;
	return empty;
}

/* Take an empty magazine from any shard; NULL: there is none. */
static inline struct magazine *
take_empty(struct magazine_layer *layer)
{
	struct depot *with;

	if (likely(layer->nshards == 1))
		return depot_take_empty(&layer->depot);
	return shards_trade(
	    layer, shard_here(layer), /* for_full */ false, NULL, &with);
}

#endif
