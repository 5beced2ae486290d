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

#endif
