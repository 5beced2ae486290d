/*
 * shards.c - the depot of a cache, in parts
 *
 *	A CPU's visit to the depot takes 60 to 150 ns of its lock, most of it a
 *	cache miss on the header of the magazine that comes out.  With a visit
 *	every 254 operations of 10 ns, all of one kind, 16 CPUs would keep one
 *	lock busy for two fifths of the time, and 64 CPUs would be two thirds
 *	as fast as without it (reckoned: a queue of so many customers).  So the
 *	depot is cut into shards, each a depot (depot.c) with a lock of its
 *	own, for 8 CPUs each.  Machines with up to 8 CPUs have one.
 *
 *	A CPU trades at its own shard as long as that has what it wants, then
 *	with the others, at each of which it looks without the lock first: in
 *	the first turn it passes those whose lock is taken, in the second it
 *	waits for them, so if it comes back with nothing, each shard had
 *	nothing at some moment.  (The slabs are asked then.  It may be in vain,
 *	never wrong.)  What it brings stays where it got what it wanted, so
 *	that a trade leaves each shard with as many magazines as before: where
 *	some CPUs only free and others only allocate, full magazines gather in
 *	the shards of the former, and come back there as empty ones.
 *
 *	The order is own ^ 1, own ^ 2 and so on: near ones first, and seldom
 *	two that start with the same one.
 *
 *	The room of the depot is divided among its shards, to the magazine, so
 *	that the whole keeps its bound.  What one has no room for goes to
 *	another that has, and to the slabs if there is none.
 *
 *	No thread holds the locks of two shards, but for fork().
 */
#include "magazine/shards.h"
#include "vmem/meta.h"

/* CPUs that share a shard of the depot. */
#define SHARD_CPUS 8
unsigned magazine_depot_shards;

/* If there is no memory for more shards, one does. */
void
shards_init(struct magazine_layer *layer)
{
	unsigned n = magazine_depot_shards;

	if (n == 0)
		n = (cpu_layer.nrun + SHARD_CPUS - 1) / SHARD_CPUS;
	if (n > MAGAZINE_SHARDS_MOST)
		n = MAGAZINE_SHARDS_MOST;
	if (n > 1)
		layer->more = meta_alloc_spare((n - 1) * sizeof(struct depot));
	layer->nshards = layer->more == NULL ? 1 : n;
	layer->shard_cpus =
	    (cpu_layer.nrun + layer->nshards - 1) / layer->nshards;
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
		__atomic_store_n(&magazine_shard(layer, i)->full_max,
		    (uint32_t)(nfull / nshards + (i < nfull % nshards)),
		    __ATOMIC_RELAXED);
}

/* Distances between several shards, exclusive or, are less than this. */
static unsigned
shards_reach(const struct magazine_layer *layer)
{
	return 2u << (31 - __builtin_clz(layer->nshards - 1));
}

/* The shard at this distance; NULL: there is none. */
static struct depot *
shard_at(struct magazine_layer *layer, unsigned own, unsigned distance)
{
	unsigned i = own ^ distance;

	return i < layer->nshards ? magazine_shard(layer, i) : NULL;
}

/* Relaxed: hints. */
static bool
is_worth_a_try(struct depot *depot, bool for_full, bool wait)
{
	struct maglist *list = for_full ? &depot->full : &depot->empty;

	return __atomic_load_n(&list->head, __ATOMIC_RELAXED) != NULL &&
	       (wait ||
		   __atomic_load_n(&depot->lock.state, __ATOMIC_RELAXED) == 0);
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
		out = for_full ? depot_trade_for_full(depot, in)
			       : depot_trade_for_empty(depot, in);
	}
	return out;
}

/* A shard that has too much, or one that has room, own ones first. */
static struct depot *
shard_find(struct magazine_layer *layer, unsigned own, bool over)
{
	unsigned reach = shards_reach(layer);

	for (unsigned i = 0; i < reach; i++) {
		struct depot *depot = shard_at(layer, own, i);

		/* Relaxed: hints. */
		if (depot != NULL &&
		    (over ? depot_is_over(depot)
			  : __atomic_load_n(&depot->full.n, __ATOMIC_RELAXED) <
				__atomic_load_n(
				    &depot->full_max, __ATOMIC_RELAXED)))
			return depot;
	}
	return NULL;
}

struct magazine *
shards_surplus(struct magazine_layer *layer, unsigned own)
{
	struct depot *from = shard_find(layer, own, /* over */ true);
	struct magazine *mag = from == NULL ? NULL : depot_take_full(from);
	struct depot *to;

	if (mag == NULL)
		return NULL;
	to = shard_find(layer, own, /* over */ false);
	if (to == NULL)
		return mag;
	depot_put_full(to, mag);
	return NULL;
}

/* Where more begins, from where the next search for the end may start. */
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

/* Of a word of each, read without the locks. */
static uint32_t
sum(struct magazine_layer *layer, size_t word)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += __atomic_load_n(
		    (uint32_t *)((char *)magazine_shard(layer, i) + word),
		    __ATOMIC_RELAXED);
	return n;
}

size_t
shards_nfull(struct magazine_layer *layer)
{
	return sum(layer, offsetof(struct depot, full.n));
}

uint32_t
shards_ncontended(struct magazine_layer *layer)
{
	return sum(layer, offsetof(struct depot, ncontended));
}

uint32_t
shards_nmoved(struct magazine_layer *layer)
{
	return sum(layer, offsetof(struct depot, nmoved));
}

size_t
shards_nrounds(struct magazine_layer *layer)
{
	size_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += depot_rounds(magazine_shard(layer, i));
	return n;
}
