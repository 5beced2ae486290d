/* shards.h - the depot of a cache, in parts; see shards.c */
#ifndef MAGAZINE_SHARDS_H
#define MAGAZINE_SHARDS_H

#include "magazine/magazine.h"

/* If there is no memory for more shards, there is one. */
void shards_init(struct magazine_layer *layer);
void shards_end(struct magazine_layer *layer);

/* So many full magazines are worth keeping, in all shards together. */
void shards_bound(struct magazine_layer *layer, size_t nfull);

/*
 * Where there are several shards: a full magazine or an empty one for in,
 * which may be NULL; *with is the shard that had one.
 */
cold_path struct magazine *shards_trade(struct magazine_layer *layer,
    unsigned own, bool for_full, struct magazine *in, struct depot **with);

/* The same for a full magazine that no shard has room for. */
cold_path struct magazine *shards_surplus(
    struct magazine_layer *layer, unsigned own);

/* Adds to a chain what take() takes from the shards; true: full ones, too. */
typedef void shards_taker(
    struct depot *, struct magazine **, struct magazine **);
bool shards_take(
    struct magazine_layer *layer, shards_taker *take, struct magazine **chain);

/* Of all shards.  Full magazines, about. */
size_t shards_nfull(struct magazine_layer *layer);
size_t shards_nrounds(struct magazine_layer *layer);
uint32_t shards_ncontended(struct magazine_layer *layer);
uint32_t shards_nmoved(struct magazine_layer *layer);

/* The shard of a CPU; numbers beyond those of the start begin anew. */
static inline unsigned
shard_of(const struct magazine_layer *layer, unsigned cpu)
{
	return likely(layer->nshards == 1)
		   ? 0
		   : cpu / layer->shard_cpus % layer->nshards;
}

static inline unsigned
shard_here(const struct magazine_layer *layer)
{
	return likely(layer->nshards == 1) ? 0 : shard_of(layer, cpu_now());
}

/* Of a CPU's own shard. */
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

/* About: nobody holds the lock. */
static inline bool
depot_is_over(const struct depot *depot)
{
	return __atomic_load_n(&depot->full.n, __ATOMIC_RELAXED) >
	       __atomic_load_n(&depot->full_max, __ATOMIC_RELAXED);
}

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

/* An empty magazine for nothing. */
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
