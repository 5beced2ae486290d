/*
 * magazine_drain.c - empties magazines and depots, for a reap or an update
 *
 * Every function here returns a chain of magazines, whose rounds the caller
 * flushes to the slabs.
 */
#include "magazine/magazine_inner.h"
#include "magazine/shards.h"
#include "magazine/sizes.h"

bool
magazine_drain(
    struct magazine_layer *layer, bool unused, struct magazine **chain)
{
	bool all;

	*chain = NULL;
	all = cpu_drain(layer->hot, layer->cold, NULL, unused, chain);
	shards_take(layer, depot_take_all, chain);
	return all;
}

/* Add all magazines of the depot to a chain, for cpu_drain_all(). */
static void
take_depots(void *layer, struct magazine **chain)
{
	shards_take(layer, depot_take_all, chain);
}

bool
magazine_drain_all(struct magazine_layer *layer, struct magazine **chain)
{
	*chain = NULL;
	return cpu_drain_all(
	    layer->hot, layer->cold, take_depots, layer, chain);
}

size_t
magazine_rounds_estimate(struct magazine_layer *layer, unsigned cpu)
{
	return cpu_rounds_estimate(layer->hot, cpu) +
	       shards_nfull(layer) * load_relaxed(&layer->rounds);
}

/* Move both magazines of an owned header to an empty chain. */
static void
take_both(struct cpu_owned *own, struct magazine **chain)
{
	struct cpu_cold *cold = own->cold;

	if (cold->loaded != NULL) {
		cold->loaded->nrounds = own->nrounds;
		cold->loaded->next = NULL;
		*chain = cold->loaded;
	}
	if (cold->previous != NULL) {
		cold->previous->next = *chain;
		*chain = cold->previous;
	}
	store_relaxed(&cold->loaded, NULL);
	store_relaxed(&cold->previous, NULL);
	own->nrounds = 0;
}

void
magazine_take_own_idle(
    struct magazine_layer *layer, struct magazine **chain, unsigned *nseen)
{
	struct cpu_owned own;
	unsigned n;

	*chain = NULL;
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return;
	n = own.nrounds;
	if (own.cold->previous != NULL)
		n += own.cold->previous->nrounds;
	if (n != 0 && n == *nseen) {
		take_both(&own, chain);
		n = 0;
	}
	*nseen = n;
	layer_release(layer, &own, /* mark_newest */ false);
}

void
magazine_idle(struct magazine_layer *layer, struct magazine **chain)
{
	*chain = NULL;
	/* Most depots are empty; avoid their locks. */
	if (shards_nfull(layer) != 0)
		shards_take(layer, depot_take_surplus, chain);
}

size_t
magazine_in_depot(struct magazine_layer *layer)
{
	return shards_nfull(layer) * load_relaxed(&layer->rounds) *
	       layer->object_bytes;
}

void
magazine_empty_depot(struct magazine_layer *layer, struct magazine **chain)
{
	*chain = NULL;
	shards_take(layer, depot_take_all, chain);
}

void
magazine_update(struct magazine_layer *layer, struct magazine **chain)
{
	unsigned most = layer->rounds_base;

	*chain = NULL;
	cpu_drain(layer->hot, layer->cold, &most, false, chain);
	if (shards_take(layer, depot_take_surplus, chain))
		sizes_set_depot(layer, load_relaxed(&layer->depot_bytes) / 2);
	if (*chain != NULL && shards_nfull(layer) == 0 &&
	    !magazine_has_budget(layer))
		magazine_shrink(layer);
	sizes_return_budget(layer, most);
}
