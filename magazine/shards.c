/*
 * shards.c - the shards of a cache's depot
 *
 * Why shards
 *	An exchange with the depot holds the lock for 60 to 150 ns, most of it
 *	for a cache miss on the header of the magazine that is taken.  If each
 *	CPU exchanges a magazine every 254 operations of 10 ns, all allocations
 *	or all frees, 16 CPUs keep one lock busy for 2/5 of the time, and 64
 *	CPUs are 2/3 as fast as without the lock (calculated, as a closed queue
 *	of so many customers).  Therefore the depot is divided into shards for
 *	4 CPUs each.  A shard is a depot (depot.c) with a lock of its own.
 *	Machines with up to 4 CPUs have one shard.
 *
 * Trade
 *	A CPU trades with its own shard while that has a suitable magazine, and
 *	then with the others.  It examines each shard without the lock first.
 *	In the first pass it skips shards with a lock that is taken, in the
 *	second pass it waits for the lock.  If a trade fails, each shard had no
 *	suitable magazine at some moment during the trade.  The CPU then asks
 *	the slabs, which may be unnecessary but is never wrong.
 *
 *	The CPU leaves its magazine in the shard that supplied the other one.
 *	A trade therefore keeps the number of magazines in each shard.  If some
 *	CPUs only free and others only allocate, full magazines gather in the
 *	shards of the former CPUs, and return there as empty ones.
 *
 *	The order is own ^ 1, own ^ 2 and so on.  A CPU tries near shards first,
 *	and CPUs of different shards seldom begin with the same one.
 *
 * Limit
 *	The limit of the depot is divided among its shards exactly, so that the
 *	sum of their limits is the limit of the depot.  A magazine above the
 *	limit of its shard moves to a shard below its limit, or to the slabs if
 *	there is none.
 *
 * Locking: only fork() holds the locks of two shards at the same time.
 */
#include "magazine/shards.h"
#include "vmem/meta.h"

/* CPUs that share a shard of the depot. */
#define SHARD_CPUS 4
unsigned magazine_depot_shards;

void
shards_init(struct magazine_layer *layer)
{
	unsigned n = magazine_depot_shards;

	if (n == 0)
		n = (cpu_layer.nrun + SHARD_CPUS - 1) / SHARD_CPUS;
	if (n > MAGAZINE_SHARDS_MAX)
		n = MAGAZINE_SHARDS_MAX;
	if (n > 1)
		layer->more =
		    meta_alloc_best_effort((n - 1) * sizeof(struct depot));
	layer->nshards = layer->more == NULL ? 1 : (uint16_t)n;
	layer->shard_cpus =
	    (uint16_t)((cpu_layer.nrun + layer->nshards - 1) / layer->nshards);
	for (unsigned i = 0; i < layer->nshards; i++)
		depot_init(magazine_shard(layer, i));
}

void
shards_end(struct magazine_layer *layer)
{
	if (layer->more != NULL)
		meta_free(
		    layer->more, (layer->nshards - 1) * sizeof(struct depot));
}

void
shards_bound(struct magazine_layer *layer, size_t nfull)
{
	unsigned nshards = layer->nshards;

	for (unsigned i = 0; i < nshards; i++)
		store_relaxed(&magazine_shard(layer, i)->full_max,
		    (uint32_t)(nfull / nshards + (i < nfull % nshards)));
}

/* Distances (own ^ other) between two of several shards are below this. */
static unsigned
shards_reach(const struct magazine_layer *layer)
{
	return 2u << (31 - __builtin_clz(layer->nshards - 1));
}

/* The shard at this distance from the own shard; NULL: there is none. */
static struct depot *
shard_at(struct magazine_layer *layer, unsigned own, unsigned distance)
{
	unsigned i = own ^ distance;

	return i < layer->nshards ? magazine_shard(layer, i) : NULL;
}

/*
 * Does the shard seem to have a suitable magazine, and its lock seem to be free
 * if the caller does not want to wait?  Relaxed loads: the result is a hint.
 */
static bool
is_worth_a_try(struct depot *depot, bool for_full, bool wait)
{
	struct maglist *list = for_full ? &depot->full : &depot->empty;

	return load_relaxed(&list->head) != NULL &&
	       (wait || load_relaxed(&depot->lock.state) == 0);
}

struct magazine *
shards_trade(struct magazine_layer *layer, unsigned own, bool for_full,
    struct magazine *in, struct depot **with)
{
	struct magazine *out = NULL;
	unsigned reach = shards_reach(layer);

	for (unsigned i = 0; i < 2 * reach && out == NULL; i++) {
		bool wait = i == 0 || i >= reach;
		struct depot *depot = shard_at(layer, own, i % reach);

		if (depot == NULL || !is_worth_a_try(depot, for_full, wait))
			continue;
		*with = depot;
		out = depot_trade(depot, for_full, in);
	}
	return out;
}

/* A shard above its limit (over) or below it, the own shard first. */
static struct depot *
shard_find(struct magazine_layer *layer, unsigned own, bool over)
{
	unsigned reach = shards_reach(layer);

	for (unsigned i = 0; i < reach; i++) {
		struct depot *depot = shard_at(layer, own, i);

		/* Relaxed loads: the result is a hint. */
		if (depot != NULL &&
		    (over ? depot_is_over(depot)
			  : load_relaxed(&depot->full.n) <
				load_relaxed(&depot->full_max)))
			return depot;
	}
	return NULL;
}

struct magazine *
shards_surplus(struct magazine_layer *layer, unsigned own)
{
	struct depot *from = shard_find(layer, own, /* over */ true);
	struct magazine *mag =
	    from == NULL ? NULL : depot_trade(from, /* for_full */ true, NULL);
	struct depot *to;

	if (mag == NULL)
		return NULL;
	to = shard_find(layer, own, /* over */ false);
	if (to == NULL)
		return mag;
	depot_put(to, mag);
	return NULL;
}

/*
 * Append more to a chain.  Returns the link to more, from which a further
 * append can start.
 */
static struct magazine **
chain_append(struct magazine **chain, struct magazine *more)
{
	while (*chain != NULL)
		chain = &(*chain)->next;
	*chain = more;
	return chain;
}

bool
shards_take(
    struct magazine_layer *layer, shards_taker *take, struct magazine **chain)
{
	struct magazine *full, *empty;
	bool some = false;

	for (unsigned i = 0; i < layer->nshards; i++) {
		take(magazine_shard(layer, i), &full, &empty);
		chain = chain_append(chain, full);
		chain = chain_append(chain, empty);
		some |= full != NULL;
	}
	return some;
}

size_t
shards_nfull(struct magazine_layer *layer)
{
	size_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += load_relaxed(&magazine_shard(layer, i)->full.n);
	return n;
}

size_t
shards_nrounds(struct magazine_layer *layer)
{
	size_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += depot_rounds(magazine_shard(layer, i));
	return n;
}
