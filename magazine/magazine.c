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
 * Size of magazines
 *	Capacities are such that a magazine is a power of two bytes.  A cache
 *	starts small.  It grows one step when overflows follow underflows on
 *	one CPU some times between two updates (the cache went through more
 *	than its magazines hold, and a larger one would have helped) or when
 *	the depot's lock is contended, and shrinks a step when a whole update
 *	passed without an exchange.
 *	Growth needs no clock, so a cold start is over in a few thousand
 *	operations.  Nothing stops for a new size: magazines carry their own
 *	capacity, and one of an old size ends when it comes by empty.
 *
 *	A magazine ties down no more than magazine_bytes_most of objects, or
 *	twice that if it is 30 of them, except that it may have two, and
 *	except for loans.  What circulates between a CPU that allocates and
 *	one that frees is some magazines of each class, and should stay in
 *	their caches.
 *
 * Loans
 *	Of large objects that is a handful, and a thread that only allocates
 *	them for one that only frees them exchanges magazines all the time.
 *	So a cache in which a CPU has exchanged FLOW magazines between two
 *	updates grows further, up to LOAN_TIMES as much, if there is credit:
 *	what all caches have beyond magazine_bytes_most is LOANS_MOST magazines
 *	of that size a CPU at most.  A cache that an update finds without a
 *	flow, an eighth of that now, returns what it has borrowed.
 *
 * Size of the depot
 *	What it has no room for goes back to the slabs.  If the slabs are asked
 *	for rounds soon after, keeping them would have been better, and the
 *	room is doubled, from DEPOT_LEAST to magazine_depot_most bytes; it is
 *	halved by an update that finds no such traffic.
 *
 *	What nobody has asked it for goes back to the slabs with each update,
 *	and earlier if the heap grows: then another cache may have a use for
 *	the memory, and to fetch the rounds from the slabs again costs less
 *	than the faults of so many new pages.
 *
 * Shards of the depot
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
 * Source: Bonwick and Adams, section 3; growth on overflow after underflow
 * is described for Google's tcmalloc (docs/design.md there).
 */
#include <string.h>

#include "magazine/magazine.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/*
 * What a magazine may tie down: 254 rounds of 256 bytes, 62 of 1024.  If those
 * are no ROUNDS_LEAST, a visit to the depot every few calls would cost more
 * than the memory does: up to LEAST_TIMES as much.  With two magazines of each
 * class up to 64 KiB in full use that is 10 MiB a CPU at worst.
 */
size_t magazine_bytes_most = 64 * KIB;
#define ROUNDS_LEAST 30
#define LEAST_TIMES  2
/* And the depot of one cache: at first, and if rounds go to and fro. */
#define DEPOT_LEAST  (1 * MIB)
size_t magazine_depot_most = 16 * MIB;

static const uint16_t capacities[] = {2, 6, 14, 30, 62, 126, 254};

/* A cache in flow may have so many times magazine_bytes_most in a magazine... */
#define LOAN_TIMES 8
/* ... as long as all of them borrow no more than this a CPU: 2 MiB. */
#define LOANS_MOST (32 * magazine_bytes_most)
/* Exchanges of magazines by one CPU between two updates. */
#define FLOW       1024

static size_t lent; /* [a] bytes, for a CPU */

/* Overflows after underflows, between updates, that make the next size. */
#define PRESSURE_MAX 8

unsigned magazine_max_contention = 2;

/* Four lines, at either end. */
#define SHARE_MOST 32

/* CPUs that share a shard of the depot. */
#define SHARD_CPUS 8
unsigned magazine_depot_shards;

static unsigned
capacity_at_most(size_t nrounds)
{
	unsigned i = array_size(capacities) - 1;

	while (i > 0 && capacities[i] > nrounds)
		i--;
	return capacities[i];
}

static uint32_t
depot_least(void)
{
	return (uint32_t)(magazine_depot_most < DEPOT_LEAST
			      ? magazine_depot_most
			      : DEPOT_LEAST);
}

static void
depot_resize(struct magazine_layer *layer)
{
	size_t each =
	    (size_t)__atomic_load_n(&layer->rounds, __ATOMIC_RELAXED) *
	    layer->object_bytes;
	size_t most = __atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED);
	/* One more than that, unless it were a giant. */
	size_t n = most / (each + 1) + (each < most / 4);
	unsigned nshards = layer->nshards;

	for (unsigned i = 0; i < nshards; i++)
		__atomic_store_n(&magazine_shard(layer, i)->full_max,
		    (uint32_t)(n / nshards + (i < n % nshards)),
		    __ATOMIC_RELAXED);
}

/* If there is no memory for more shards, one does. */
static void
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

/* The shard of a CPU; numbers beyond those of the start begin anew. */
static unsigned
shard_of(const struct magazine_layer *layer, unsigned cpu)
{
	return likely(layer->nshards == 1)
		   ? 0
		   : cpu / layer->shard_cpus % layer->nshards;
}

static unsigned
shard_here(const struct magazine_layer *layer)
{
	return likely(layer->nshards == 1) ? 0 : shard_of(layer, cpu_now());
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

/* *with is the shard where there was one. */
static cold_path struct magazine *
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

static struct magazine *
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
static bool
depot_is_over(const struct depot *depot)
{
	return __atomic_load_n(&depot->full.n, __ATOMIC_RELAXED) >
	       __atomic_load_n(&depot->full_max, __ATOMIC_RELAXED);
}

static struct magazine *
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
static struct magazine *
take_empty(struct magazine_layer *layer)
{
	struct depot *with;

	if (likely(layer->nshards == 1))
		return depot_take_empty(&layer->depot);
	return shards_trade(
	    layer, shard_here(layer), /* for_full */ false, NULL, &with);
}

/* Of a CPU's own shard. */
static struct depot *
depot_of(struct magazine_layer *layer, unsigned cpu)
{
	return magazine_shard(layer, shard_of(layer, cpu));
}

static struct depot *
depot_here(struct magazine_layer *layer)
{
	return magazine_shard(layer, shard_here(layer));
}

/* Of objects of this size, without a loan. */
static size_t
rounds_most_of(size_t object_bytes)
{
	size_t most = magazine_bytes_most / object_bytes;
	size_t least = LEAST_TIMES * magazine_bytes_most / object_bytes;

	if (least > ROUNDS_LEAST)
		least = ROUNDS_LEAST;
	return most > least ? most : least;
}

static void
layer_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max)
{
	size_t most = rounds_most_of(object_bytes);
	size_t borrowing = LOAN_TIMES * magazine_bytes_most / object_bytes;

	if (rounds_max != 0 && most > rounds_max)
		most = rounds_max;
	if (rounds_max != 0 && borrowing > rounds_max)
		borrowing = rounds_max;
	shards_init(layer);
	layer->object_bytes =
	    object_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)object_bytes;
	layer->depot_bytes = depot_least();
	layer->rounds_max = capacity_at_most(most);
	layer->rounds_most = capacity_at_most(borrowing);
	layer->rounds = capacity_at_most(layer->rounds_max / 4);
	depot_resize(layer);
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

/* What a cache with such magazines has borrowed: a CPU has two. */
static size_t
loan(const struct magazine_layer *layer, unsigned rounds)
{
	if (rounds <= layer->rounds_max)
		return 0;
	return 2 * (size_t)(rounds - layer->rounds_max) * layer->object_bytes;
}

/* From one capacity to another; false: somebody else did, or no credit. */
static bool
resize(struct magazine_layer *layer, uint32_t now, unsigned rounds)
{
	size_t more = loan(layer, rounds) - loan(layer, now);

	if (__atomic_add_fetch(&lent, more, __ATOMIC_RELAXED) > LOANS_MOST &&
	    rounds > now && more != 0)
		goto refuse;
	if (!__atomic_compare_exchange_n(&layer->rounds, &now, rounds, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		goto refuse;
	depot_resize(layer);
	return true;
refuse:
	__atomic_sub_fetch(&lent, more, __ATOMIC_RELAXED);
	return false;
}

void
magazine_layer_end(struct magazine_layer *layer)
{
	__atomic_sub_fetch(&lent, loan(layer, layer->rounds), __ATOMIC_RELAXED);
	if (layer->more != NULL)
		meta_free(
		    layer->more, (layer->nshards - 1) * sizeof(struct depot));
	cpu_header_free(layer->hot);
}

static void
grow_to(struct magazine_layer *layer, unsigned most)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (now < most)
		resize(layer, now, capacity_at_most(2 * now + 2));
}

void
magazine_grow(struct magazine_layer *layer)
{
	__atomic_store_n(&layer->pressure, 0, __ATOMIC_RELAXED);
	grow_to(layer, layer->rounds_max);
}

void
magazine_shrink(struct magazine_layer *layer)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (now > capacities[0])
		resize(layer, now, capacity_at_most(now - 1));
}

/* An exchange with the depot: one of many? */
static void
note_flow(struct magazine_layer *layer, const struct cpu_cold *cold)
{
	uint32_t moved = cold->nloads + cold->nunloads - cold->moved_at_update;

	if (likely(moved % (FLOW / 8) != 0 || moved == 0))
		return;
	__atomic_store_n(&layer->flowed, 1, __ATOMIC_RELAXED);
	if (moved % FLOW == 0)
		grow_to(layer, layer->rounds_most);
}

/* The end of a flow is seen by the update after the last. */
static void
loan_return(struct magazine_layer *layer)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (__atomic_exchange_n(&layer->flowed, 0, __ATOMIC_RELAXED) == 0 &&
	    now > layer->rounds_max)
		resize(layer, now, layer->rounds_max);
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
	note_flow(layer, cold);
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

/* An overflow: was the last exchange here an underflow? */
static void
note_overflow(struct magazine_layer *layer, struct cpu_cold *cold)
{
	cold->nunloads++;
	note_flow(layer, cold);
	if (cold->underflowed == 0)
		return;
	cold->underflowed = 0;
	/* No larger ones: nothing to count on a line that all CPUs read. */
	if (__atomic_load_n(&layer->rounds, __ATOMIC_RELAXED) >=
	    layer->rounds_max)
		return;
	if (__atomic_add_fetch(&layer->pressure, 1, __ATOMIC_RELAXED) >=
	    PRESSURE_MAX)
		magazine_grow(layer);
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
			note_overflow(layer, cold);
		}
	} else if (cold->previous == NULL) {
		return false;
	} else {
		empty = trade_for_empty(layer, own->cpu, cold->previous, news);
		if (empty == NULL)
			return false;
		note_overflow(layer, cold);
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

/* So many rounds are looked at here; the section looks at two. */
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
is_among_newest(const struct cpu_owned *own, const void *object)
{
	const struct magazine *loaded = own->cold->loaded;
	const struct magazine *previous = own->cold->previous;
	unsigned n = own->nrounds;

	if (is_in(loaded, n, NEWEST, object) ||
	    (n > 0 && loaded->round[0] == object))
		return true;
	return n < NEWEST && previous != NULL &&
	       is_in(previous, previous->nrounds, NEWEST - n, object);
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
	bool room, none;

	if (!cpu_own(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	if (cpu_ticked(&own))
		*news |= MAGAZINE_TICKED;
	if (is_among_newest(&own, object)) {
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
		note_flow(layer, own.cold);
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

/* The same as below where other shards may have room. */
static cold_path struct magazine *
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

static void
depot_room(struct magazine_layer *layer, size_t bytes)
{
	if (bytes < depot_least() || bytes > magazine_depot_most)
		return;
	__atomic_store_n(
	    &layer->depot_bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
	depot_resize(layer);
}

/* The slabs are asked for rounds: were they given some not long ago? */
static void
note_refill(struct magazine_layer *layer)
{
	if (likely(__atomic_load_n(&layer->overflowed, __ATOMIC_RELAXED) == 0))
		return;
	__atomic_store_n(&layer->overflowed, 0, __ATOMIC_RELAXED);
	depot_room(layer,
	    2 * (size_t)__atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED));
}

unsigned
magazine_refill_want(struct magazine_layer *layer)
{
	/* By the page: what the first touch brings in anyway. */
	unsigned first = (unsigned)(2048 / layer->object_bytes) + 1;
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	struct cpu_owned own;
	unsigned want = first;

	note_refill(layer);
	if (cpu_own(layer->hot, layer->cold, &own)) {
		if (own.cold->refill != 0)
			want = own.cold->refill;
		own.cold->refill = want < rounds ? 2 * want : want;
		cpu_disown(&own);
	}
	return want < rounds ? want : rounds;
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

typedef void take_depot(struct depot *, struct magazine **, struct magazine **);

/* Adds to a chain what take() takes from the shards; true: full ones, too. */
static bool
chain_depot(
    struct magazine_layer *layer, take_depot *take, struct magazine **chain)
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

bool
magazine_drain(struct magazine_layer *layer, struct magazine **chain)
{
	bool all;

	*chain = NULL;
	all = cpu_drain(layer->hot, layer->cold, NULL, chain);
	chain_depot(layer, depot_take_all, chain);
	return all;
}

/* Full magazines in all shards, about. */
static size_t
depot_nfull(struct magazine_layer *layer)
{
	size_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += __atomic_load_n(
		    &magazine_shard(layer, i)->full.n, __ATOMIC_RELAXED);
	return n;
}

size_t
magazine_glance(struct magazine_layer *layer)
{
	return cpu_glance(layer->hot) +
	       depot_nfull(layer) *
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
	chain_depot(layer, depot_take_all, chain);
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
	if (depot_nfull(layer) != 0)
		chain_depot(layer, depot_take_surplus, chain);
}

static uint32_t
depot_ncontended(struct magazine_layer *layer)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += __atomic_load_n(
		    &magazine_shard(layer, i)->ncontended, __ATOMIC_RELAXED);
	return n;
}

void
magazine_update(struct magazine_layer *layer, struct magazine **chain)
{
	uint32_t contended = depot_ncontended(layer);
	bool surplus;

	*chain = NULL;
	cpu_drain(layer->hot, layer->cold, is_busy, chain);
	surplus = chain_depot(layer, depot_take_surplus, chain);
	if (contended - layer->ncontended > magazine_max_contention)
		magazine_grow(layer);
	else if (*chain != NULL && depot_nfull(layer) == 0)
		magazine_shrink(layer);
	loan_return(layer);
	if (surplus)
		depot_room(layer,
		    __atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED) / 2);
	layer->ncontended = contended;
	__atomic_store_n(&layer->pressure, 0, __ATOMIC_RELAXED);
}

size_t
magazine_lent(void)
{
	return __atomic_load_n(&lent, __ATOMIC_RELAXED);
}

size_t
magazine_rounds(struct magazine_layer *layer)
{
	size_t n = cpu_rounds(layer->hot, layer->cold);

	for (unsigned i = 0; i < layer->nshards; i++)
		n += depot_rounds(magazine_shard(layer, i));
	return n;
}

uint32_t
magazine_moved(struct magazine_layer *layer)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < layer->nshards; i++)
		n += __atomic_load_n(
		    &magazine_shard(layer, i)->nmoved, __ATOMIC_RELAXED);
	return n;
}
