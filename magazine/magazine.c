/*
 * magazine.c - one cache's magazines: what happens when a section misses
 *
 * Two magazines a CPU
 *	Allocs and frees that alternate around a full or an empty magazine
 *	would go to the depot each time; with the previous magazine at hand
 *	they exchange the two, and come to the depot only after at least a
 *	whole magazine's worth of one kind.
 *
 *	The same is so of the exchange itself, a hundred times as slow as an
 *	operation that needs none if its lines have left the cache: at an edge
 *	between a full and an empty magazine it would be wanted again at once.
 *	So when one is full and the other empty, the newest rounds of the full
 *	one, half of them or SHARE_MOST, go over to the empty one: the next
 *	exchange is as many operations of one kind away, either way.  A
 *	program that allocates and frees at random has a tenth of the
 *	exchanges for it.  What goes to the depot is a full magazine all the
 *	same, as one that has room is filled first.
 *
 * First free
 *	A CPU without a magazine that is given an object smaller than a cache
 *	line has it from another CPU, most likely, and a neighbour in the same
 *	line may be in use there.  Handed out here next, the two would share
 *	the line for as long as they are used.  So the CPU begins with a
 *	magazine of rounds from the slabs, and the object goes below them.
 *
 * Refill
 *	Asks the slabs for few rounds at first and for twice as many each time
 *	(a program that makes three objects of a size should not touch a page
 *	full of them), until it is a whole magazine.
 *
 * How large magazines and the depot are is in sizes.c, the parts of the depot
 * are in shards.c.
 *
 * Source: Bonwick and Adams, section 3.
 */
#include <limits.h>
#include <string.h>

#include "magazine/shards.h"
#include "magazine/sizes.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/* Four lines, at either end. */
#define SHARE_MOST 32

static void
layer_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max)
{
	shards_init(layer);
	sizes_init(layer, object_bytes, rounds_max);
}

bool
magazine_layer_init(struct magazine_layer *layer, size_t object_bytes,
    unsigned rounds_max, struct cpu_guard guard)
{
	if (!cpu_header_alloc(guard, &layer->hot, &layer->cold))
		return false;
	layer_init(layer, object_bytes, rounds_max);
	return true;
}

void
magazine_layer_init_at(struct magazine_layer *layer, unsigned header,
    size_t object_bytes, struct cpu_guard guard)
{
	cpu_header_at(header, guard, &layer->hot, &layer->cold);
	layer_init(layer, object_bytes, /* rounds_max */ 0);
}

void
magazine_layer_end(struct magazine_layer *layer)
{
	sizes_end(layer);
	shards_end(layer);
	cpu_header_free(layer->hot);
}

struct magazine *
magazine_new(struct magazine_layer *layer)
{
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	struct magazine *mag = meta_alloc_spare(magazine_bytes(rounds));

	if (mag != NULL)
		mag->capacity = rounds;
	return mag;
}

void
magazine_delete(struct magazine *mag)
{
	umem_assert(mag->nrounds == 0);
	meta_free(mag, magazine_bytes(mag->capacity));
}

struct magazine *
magazine_empty(struct magazine_layer *layer)
{
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	struct magazine *mag;

	while ((mag = take_empty(layer)) != NULL) {
		if (mag->capacity == rounds)
			return mag;
		magazine_delete(mag);
	}
	return magazine_new(layer);
}

uint32_t magazine_exchanged;

static void
note_exchange(void)
{
	/* The line is everybody's. */
	if (unlikely(
		__atomic_load_n(&magazine_exchanged, __ATOMIC_RELAXED) == 0))
		__atomic_store_n(&magazine_exchanged, 1, __ATOMIC_RELAXED);
}

/* Loaded becomes previous and previous becomes loaded. */
static void
swap(struct cpu_owned *own)
{
	struct magazine *mag = own->cold->previous;

	own->cold->previous = own->cold->loaded;
	if (own->cold->previous != NULL)
		own->cold->previous->nrounds = own->nrounds;
	own->cold->loaded = mag;
	own->nrounds = mag == NULL ? 0 : mag->nrounds;
	note_exchange();
}

/*
 * If the loaded magazine is empty and the previous full: some of its newest
 * rounds for the loaded one, so that neither is full nor empty.
 */
static bool
share(struct cpu_owned *own)
{
	struct magazine *from = own->cold->previous, *to = own->cold->loaded;
	unsigned n;

	if (own->nrounds != 0 || from == NULL || to == NULL ||
	    from->nrounds != from->capacity)
		return false;
	n = from->nrounds / 2 < SHARE_MOST ? from->nrounds / 2 : SHARE_MOST;
	if (n >= to->capacity)
		return false;
	from->nrounds -= n;
	memcpy(to->round, from->round + from->nrounds, n * sizeof(void *));
	own->nrounds = n;
	note_exchange();
	return true;
}

/* Of a size that magazines no longer have. */
static bool
is_stale(struct magazine_layer *layer, const struct magazine *mag)
{
	return mag->capacity !=
	       __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
}

/* Both magazines are empty: the one to part with becomes the previous. */
static bool
stale_to_previous(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;

	if (cold->previous == NULL)
		return false;
	if (cold->loaded != NULL && is_stale(layer, cold->loaded) &&
	    !is_stale(layer, cold->previous))
		swap(own);
	return is_stale(layer, cold->previous);
}

/* Rounds on the owned header, by an exchange if need be. */
static bool
have_rounds(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *full, *empty;
	bool stale;

	if (own->nrounds > 0)
		return true;
	if (cold->previous != NULL && cold->previous->nrounds > 0) {
		if (!share(own))
			swap(own);
		return true;
	}
	stale = stale_to_previous(layer, own);
	empty = cold->previous;
	full = trade_for_full(layer, own->cpu, stale ? NULL : empty);
	cold->underflowed = 1;
	if (full == NULL)
		return false;
	if (stale)
		magazine_delete(empty);
	cold->nloads++;
	sizes_exchanged(layer, cold);
	cold->previous = full;
	swap(own);
	return true;
}

enum magazine_result
magazine_get(struct magazine_layer *layer, void **object)
{
	struct cpu_owned own;
	bool have;

	if (!cpu_own(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	have = have_rounds(layer, &own);
	if (have)
		*object = own.cold->loaded->round[--own.nrounds];
	cpu_disown(&own);
	return have ? MAGAZINE_OK : MAGAZINE_EMPTY;
}

static bool
loaded_has_room(const struct cpu_owned *own)
{
	return own->cold->loaded != NULL &&
	       own->nrounds < own->cold->loaded->capacity;
}

static void
note_unload(struct magazine_layer *layer, struct cpu_cold *cold)
{
	cold->nunloads++;
	sizes_exchanged(layer, cold);
	sizes_overflowed(layer, cold);
}

void (*magazine_check)(
    struct magazine_layer *layer, void *const *rounds, unsigned n);

/* The loaded magazine is full. */
static void
check_filled(struct magazine_layer *layer, struct cpu_owned *own)
{
	uint32_t n = own->cold->nfilled++;

	if (magazine_check != NULL &&
	    (n < MAGAZINE_CHECKED || n % MAGAZINE_CHECK_EACH == 0))
		magazine_check(layer, own->cold->loaded->round, own->nrounds);
}

/* Room on the owned header, by an exchange if need be. */
static bool
have_room(struct magazine_layer *layer, struct cpu_owned *own,
    struct magazine **spare, unsigned *news)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *empty;

	if (loaded_has_room(own))
		return true;
	if (cold->loaded != NULL && *spare == NULL)
		check_filled(layer, own);
	if (cold->previous != NULL &&
	    cold->previous->nrounds < cold->previous->capacity) {
		swap(own);
		share(own);
		return true;
	}
	if (*spare != NULL) {
		/* The second visit, with a magazine that was made for it. */
		empty = *spare;
		*spare = NULL;
		if (cold->previous != NULL) {
			if (depot_put_full(
				depot_of(layer, own->cpu), cold->previous))
				*news |= MAGAZINE_SURPLUS;
			note_unload(layer, cold);
		}
	} else if (cold->previous == NULL) {
		return false;
	} else {
		empty = trade_for_empty(layer, own->cpu, cold->previous, news);
		if (empty == NULL)
			return false;
		note_unload(layer, cold);
		if (is_stale(layer, empty)) {
			/* The second visit brings one of the new size. */
			cold->previous = NULL;
			magazine_delete(empty);
			return false;
		}
	}
	cold->previous = empty;
	swap(own);
	return true;
}

/*
 * Rounds that a slow push compares, if it was not refused to compare all; the
 * section compares two.
 */
#define NEWEST 32

/* Is it one of the newest n? */
static bool
is_in(const struct magazine *mag, unsigned nrounds, unsigned n,
    const void *object)
{
	unsigned end = nrounds > n ? nrounds - n : 0;

	while (nrounds > end)
		if (mag->round[--nrounds] == object)
			return true;
	return false;
}

/*
 * Was the object freed a moment ago?  What is loaded is newer, but for the
 * oldest, perhaps: put_round().
 */
static bool
is_among_newest(const struct cpu_owned *own, const void *object, unsigned most)
{
	const struct magazine *loaded = own->cold->loaded;
	const struct magazine *previous = own->cold->previous;
	unsigned n = own->nrounds;

	if (is_in(loaded, n, most, object) ||
	    (n > 0 && loaded->round[0] == object))
		return true;
	return n < most && previous != NULL &&
	       is_in(previous, previous->nrounds, most - n, object);
}

/*
 * Below what came with the first magazine: see "First free" at the top.  If
 * it is full now, the next free comes here, too, and is compared.
 */
static void
put_round(struct cpu_owned *own, void *object, bool first)
{
	struct magazine *mag = own->cold->loaded;

	if (first && own->nrounds == mag->capacity - 1) {
		mag->round[own->nrounds] = mag->round[0];
		mag->round[0] = object;
	} else {
		mag->round[own->nrounds] = object;
	}
	own->nrounds++;
}

enum magazine_result
magazine_put(struct magazine_layer *layer, void *object,
    struct magazine **spare, unsigned *news)
{
	struct cpu_owned own;
	unsigned flags;
	bool room, none;

	if (!cpu_own(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	/* In locked mode no section has counted this push. */
	flags = cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE);
	if (flags & CPU_TICKED)
		*news |= MAGAZINE_TICKED;
	if (is_among_newest(
		&own, object, flags & CPU_CHECK ? UINT_MAX : NEWEST)) {
		cpu_disown(&own);
		return MAGAZINE_TWICE;
	}
	none = own.cold->loaded == NULL;
	room = have_room(layer, &own, spare, news);
	if (room)
		put_round(&own, object, none && own.nrounds > 0);
	cpu_disown(&own);
	if (room)
		return MAGAZINE_OK;
	return none ? MAGAZINE_NONE : MAGAZINE_FULL;
}

/*
 * Rounds for a request of want: a previous magazine that the request will use
 * up is loaded whole, since no round of it has to be left for the next get.
 */
static bool
have_rounds_for(
    struct magazine_layer *layer, struct cpu_owned *own, unsigned want)
{
	const struct magazine *previous = own->cold->previous;

	if (own->nrounds == 0 && previous != NULL && previous->nrounds > 0 &&
	    previous->nrounds <= want) {
		swap(own);
		return true;
	}
	return have_rounds(layer, own);
}

/*
 * Deletes the magazines of an owned header that are empty and smaller than
 * those made now.  Bulk requests that fit two magazines never bring them to the
 * depot, where have_rounds() would delete them.
 */
static void
delete_small(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (cold->previous != NULL && cold->previous->nrounds == 0 &&
	    cold->previous->capacity < rounds) {
		magazine_delete(cold->previous);
		cold->previous = NULL;
	}
	if (cold->loaded != NULL && own->nrounds == 0 &&
	    cold->loaded->capacity < rounds) {
		swap(own);
		magazine_delete(cold->previous);
		cold->previous = NULL;
	}
}

unsigned
magazine_get_bulk(struct magazine_layer *layer, void **objects, unsigned n)
{
	struct cpu_owned own;
	unsigned got = 0;

	/* A larger magazine would have served the request by a section. */
	if (n > __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED))
		magazine_grow(layer);
	if (!cpu_own(layer->hot, layer->cold, &own))
		return 0;
	while (got < n && have_rounds_for(layer, &own, n - got)) {
		unsigned nmore = own.nrounds < n - got ? own.nrounds : n - got;

		own.nrounds -= nmore;
		memcpy(objects + got, own.cold->loaded->round + own.nrounds,
		    nmore * sizeof(void *));
		got += nmore;
	}
	delete_small(layer, &own);
	cpu_disown(&own);
	return got;
}

unsigned
magazine_distinct(void *const *objects, unsigned n)
{
	const void *last = NULL, *last_but_one = NULL;

	for (unsigned i = 0; i < n; i++) {
		if (objects[i] == last || objects[i] == last_but_one ||
		    objects[i] == NULL)
			return i;
		last_but_one = last;
		last = objects[i];
	}
	return n;
}

enum magazine_result
magazine_put_bulk(struct magazine_layer *layer, void *const *objects,
    unsigned *n, struct magazine **spare, unsigned *news)
{
	unsigned put = 0, want = magazine_distinct(objects, *n);
	enum magazine_result result = MAGAZINE_OK;
	struct cpu_owned own;

	*n = 0;
	if (want == 0)
		return MAGAZINE_TWICE;
	if (!cpu_own(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	if (cpu_ticked(&own, want) & CPU_TICKED)
		*news |= MAGAZINE_TICKED;
	if (is_among_newest(&own, objects[0], NEWEST)) {
		cpu_disown(&own);
		return MAGAZINE_TWICE;
	}
	while (put < want) {
		struct magazine *mag;
		unsigned nmore;

		if (!have_room(layer, &own, spare, news)) {
			result = MAGAZINE_FULL;
			break;
		}
		mag = own.cold->loaded;
		nmore = mag->capacity - own.nrounds;
		if (nmore > want - put)
			nmore = want - put;
		memcpy(mag->round + own.nrounds, objects + put,
		    nmore * sizeof(void *));
		own.nrounds += nmore;
		put += nmore;
	}
	cpu_disown(&own);
	*n = put;
	return result;
}

void
magazine_install(struct magazine_layer *layer, struct magazine *mag)
{
	struct magazine *old = NULL;
	struct cpu_owned own;

	umem_assert(mag->nrounds > 0);
	if (!cpu_own(layer->hot, layer->cold, &own)) {
		depot_put_full(depot_here(layer), mag);
		return;
	}
	if (own.nrounds > 0) {
		/* Somebody else of this CPU brought rounds meanwhile. */
		depot_put_full(depot_here(layer), mag);
	} else {
		old = own.cold->loaded;
		own.cold->loaded = mag;
		own.nrounds = mag->nrounds;
		own.cold->nloads++;
		sizes_exchanged(layer, own.cold);
		if (own.cold->previous == NULL && old != NULL) {
			old->nrounds = 0;
			own.cold->previous = old;
			old = NULL;
		}
	}
	cpu_disown(&own);
	if (old == NULL)
		return;
	old->nrounds = 0;
	if (old->capacity == __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED))
		depot_put_empty(depot_here(layer), old);
	else
		magazine_delete(old);
}

bool
magazine_give(struct magazine_layer *layer, struct magazine *mag)
{
	static unsigned turn; /* [a] */
	unsigned shard = 0;

	/* Relaxed: any shard is right. */
	if (unlikely(layer->nshards > 1))
		shard = __atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED) %
			layer->nshards;
	if (mag->nrounds != 0)
		return depot_put_full(magazine_shard(layer, shard), mag);
	if (is_stale(layer, mag))
		magazine_delete(mag);
	else
		depot_put_empty(magazine_shard(layer, shard), mag);
	return false;
}

struct magazine *
magazine_surplus(struct magazine_layer *layer)
{
	struct magazine *mag = likely(layer->nshards == 1)
				   ? depot_take_full(&layer->depot)
				   : shards_surplus(layer, shard_here(layer));

	if (mag != NULL)
		__atomic_store_n(&layer->overflowed, 1, __ATOMIC_RELAXED);
	return mag;
}

void
magazine_refilled(struct magazine_layer *layer)
{
	sizes_refilled(layer);
}

unsigned
magazine_refill_want(struct magazine_layer *layer)
{
	/* By the page: what the first touch brings in anyway. */
	unsigned first = (unsigned)(2048 / layer->object_bytes) + 1;
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	struct cpu_owned own;
	unsigned want = first;

	sizes_refilled(layer);
	if (cpu_own(layer->hot, layer->cold, &own)) {
		if (own.cold->refill != 0)
			want = own.cold->refill;
		own.cold->refill = want < rounds ? 2 * want : want;
		cpu_disown(&own);
	}
	return want < rounds ? want : rounds;
}

bool
magazine_drain(struct magazine_layer *layer, struct magazine **chain)
{
	bool all;

	*chain = NULL;
	all = cpu_drain(layer->hot, layer->cold, NULL, chain);
	shards_take(layer, depot_take_all, chain);
	return all;
}

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
magazine_glance(struct magazine_layer *layer)
{
	return cpu_glance(layer->hot) +
	       shards_nfull(layer) *
		   __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
}

/* Both magazines of an owned header to a chain that is empty. */
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
	cold->loaded = cold->previous = NULL;
	own->nrounds = 0;
}

void
magazine_take_near(struct magazine_layer *layer, struct magazine **chain)
{
	struct cpu_owned own;

	*chain = NULL;
	if (cpu_own(layer->hot, layer->cold, &own)) {
		take_both(&own, chain);
		cpu_disown(&own);
	}
	shards_take(layer, depot_take_all, chain);
}

void
magazine_idle_near(
    struct magazine_layer *layer, struct magazine **chain, unsigned *nseen)
{
	struct cpu_owned own;
	unsigned n;

	*chain = NULL;
	if (!cpu_own(layer->hot, layer->cold, &own))
		return;
	n = own.nrounds;
	if (own.cold->previous != NULL)
		n += own.cold->previous->nrounds;
	if (n != 0 && n == *nseen) {
		take_both(&own, chain);
		n = 0;
	}
	*nseen = n;
	cpu_disown(&own);
}

/* Was this CPU's header exchanging magazines since the last update? */
static bool
is_busy(struct cpu_cold *cold)
{
	uint32_t moved = cold->nloads + cold->nunloads;
	bool busy = moved != cold->moved_at_update;

	cold->moved_at_update = moved;
	return busy;
}

/* Most depots have nothing: no lock is taken for those. */
void
magazine_idle(struct magazine_layer *layer, struct magazine **chain)
{
	*chain = NULL;
	if (shards_nfull(layer) != 0)
		shards_take(layer, depot_take_surplus, chain);
}

size_t
magazine_in_depot(struct magazine_layer *layer)
{
	return shards_nfull(layer) *
	       __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED) *
	       layer->object_bytes;
}

void
magazine_empty_depot(struct magazine_layer *layer, struct magazine **chain)
{
	*chain = NULL;
	shards_take(layer, depot_take_all, chain);
}

void
magazine_update(struct magazine_layer *layer, struct magazine_visits behind,
    struct magazine **chain)
{
	bool surplus;

	*chain = NULL;
	cpu_drain(layer->hot, layer->cold, is_busy, chain);
	surplus = shards_take(layer, depot_take_surplus, chain);
	if (!sizes_grow_if_met(layer, behind)) {
		if (*chain != NULL && shards_nfull(layer) == 0)
			magazine_shrink(layer);
		sizes_return_loan(layer);
	}
	if (surplus)
		sizes_shrink_depot(layer);
	__atomic_store_n(&layer->pressure, 0, __ATOMIC_RELAXED);
}

size_t
magazine_rounds(struct magazine_layer *layer)
{
	return cpu_rounds(layer->hot, layer->cold) + shards_nrounds(layer);
}

uint32_t
magazine_moved(struct magazine_layer *layer)
{
	return shards_nmoved(layer);
}
