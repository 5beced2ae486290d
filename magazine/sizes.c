/*
 * sizes.c - capacities of a cache's magazines and of its depot
 *
 * Size of magazines
 *	Capacities are chosen so that the size of a magazine is a power of two
 *	bytes.  The magazines of a cache start small.  They grow one step
 *	- if overflows followed underflows on one CPU PRESSURE_MAX times
 *	  between two updates: the program used more rounds than the magazines
 *	  hold, and larger ones would have avoided exchanges;
 *	- if the lock of the depot or of the slabs is contended.
 *	They shrink one step if no exchange occurred between two updates.
 *	Growth needs no clock, so a cold start is over after a few thousand
 *	operations.  A new capacity does not stop any thread: each magazine
 *	stores its own capacity, and a magazine of an old capacity is deleted
 *	when a thread finds it empty.
 *
 *	Usually 254 rounds are enough: an acquisition of the slabs' lock takes
 *	150 to 500 ns, which is at most 2 ns for each object.  But many CPUs
 *	that only allocate contend for that lock: 14 to 24 CPUs that fill new
 *	memory with objects of one class keep it busy (calculated).  The time
 *	is spent on cache lines that move from one CPU to the next, as many for
 *	a thousand rounds as for a few.  Therefore, if more than one acquisition
 *	in CROWD had to wait between two updates, magazines grow to 1022 rounds,
 *	within the same limit in bytes, until an update finds little traffic.
 *
 *	With less contention the larger magazines do not pay.  Two CPUs with
 *	one contended acquisition in 13 are 1/20 slower with 1022 rounds,
 *	because fewer of their objects stay in the first-level cache.  If the
 *	lock is held for 1 or 2 us longer each time, they need 3/4 or 1/2 of the
 *	time.
 *
 *	A magazine holds objects of at most magazine_bytes_most bytes.  The
 *	limit is up to twice as much if the magazine would otherwise hold fewer
 *	than 30 rounds.  A magazine may always hold two rounds, and a cache may
 *	borrow budget beyond the limit.  The limit exists because some magazines
 *	of each class circulate between a CPU that allocates and a CPU that
 *	frees, and should stay in the caches of these CPUs.
 *
 * Borrowed budget
 *	For large objects this limit is only a few rounds, so a producer and a
 *	consumer thread would exchange magazines on almost every call.
 *	Therefore the magazines of a cache grow further if a CPU has exchanged
 *	FLOW magazines of it between two updates: up to BORROW_TIMES the limit.
 *	The budget that all caches borrow together is at most BORROWED_MOST
 *	bytes for each CPU.  A cache returns its budget at an update if no CPU
 *	has exchanged FLOW/8 magazines since the last update.
 *
 * Size of the depot
 *	Magazines beyond the limit of the depot are flushed to the slabs.  If
 *	the slabs are asked for rounds soon afterwards, the limit was too low
 *	and is doubled: from DEPOT_LEAST up to magazine_depot_most bytes.  An
 *	update that finds a surplus in the depot halves it.
 *
 *	Each update flushes the surplus of the depot, which no CPU has used
 *	since the last update, to the slabs.  Growth of the heap does so
 *	earlier, because another cache may use the memory: refilling from the
 *	slabs costs less than page faults on so much new memory.  If all depots
 *	together hold much when the heap is asked for memory, they are emptied
 *	(umem/upkeep/reclaim.c).
 *
 * Source: growth on overflow after underflow is described for Google's
 * tcmalloc (docs/design.md there); growth where a lock is contended by Bonwick
 * and Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#include "magazine/sizes.h"
#include "magazine/shards.h"

/*
 * Most bytes of objects in a magazine: 254 rounds of 256 bytes, 62 of 1024.  If
 * these are fewer than ROUNDS_LEAST rounds, the limit is up to LEAST_TIMES as
 * much, because an exchange with the depot every few calls would cost more than
 * the memory.  If two magazines of each class up to 64 KiB are in full use,
 * they hold at most 10 MiB for each CPU.
 */
size_t magazine_bytes_most = 64 * KIB;
#define ROUNDS_LEAST 30
#define LEAST_TIMES  2
/* The initial and the largest limit of a depot, in bytes. */
#define DEPOT_LEAST  (1 * MIB)
size_t magazine_depot_most = 16 * MIB;

static const uint16_t capacities[] = {
    2, 6, 14, 30, 62, 126, 254, 510, MAGAZINE_ROUNDS_MOST};
/* Largest capacity without contention. */
#define ROUNDS_CALM 254
/* A lock is contended if more than one acquisition in CROWD has to wait. */
#define CROWD       4

/* With borrowed budget a magazine holds up to 8 times magazine_bytes_most. */
#define BORROW_TIMES  8
/* Most bytes that all caches together borrow for each CPU: 2 MiB by default. */
#define BORROWED_MOST (32 * magazine_bytes_most)
/* Sustained traffic: exchanges of magazines by one CPU between two updates. */
#define FLOW          (8 * SIZES_FLOW_STEP)

size_t sizes_borrowed;

/* Overflows after underflows between updates before magazines grow. */
#define PRESSURE_MAX 8

unsigned magazine_max_contention = 2;

/* The largest capacity of at most nrounds, or the smallest capacity. */
static unsigned
capacity_at_most(size_t nrounds)
{
	unsigned i = array_size(capacities) - 1;

	while (i > 0 && capacities[i] > nrounds)
		i--;
	return capacities[i];
}

/* The initial limit of a depot in bytes. */
static uint32_t
depot_least(void)
{
	return (uint32_t)(magazine_depot_most < DEPOT_LEAST
			      ? magazine_depot_most
			      : DEPOT_LEAST);
}

/* Set the limit in magazines, after a change of capacity or depot_bytes. */
static void
depot_resize(struct magazine_layer *layer)
{
	size_t each =
	    (size_t)__atomic_load_n(&layer->rounds, __ATOMIC_RELAXED) *
	    layer->object_bytes;
	size_t most = __atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED);

	if (layer->keeps_none)
		shards_bound(layer, 0);
	else
		/* Round up by one unless a magazine is a quarter of it. */
		shards_bound(layer, most / (each + 1) + (each < most / 4));
}

static size_t
lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Most rounds in a magazine of objects of this size, without borrowing. */
static size_t
rounds_most_of(size_t object_bytes)
{
	size_t most = magazine_bytes_most / object_bytes;
	size_t least = LEAST_TIMES * magazine_bytes_most / object_bytes;

	least = lesser(least, ROUNDS_LEAST);
	return most > least ? most : least;
}

void
sizes_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max)
{
	size_t most = rounds_most_of(object_bytes);
	size_t borrowing = BORROW_TIMES * magazine_bytes_most / object_bytes;

	if (rounds_max != 0) {
		most = lesser(most, rounds_max);
		borrowing = lesser(borrowing, rounds_max);
	}
	layer->object_bytes =
	    object_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)object_bytes;
	layer->depot_bytes = depot_least();
	layer->rounds_crowded = capacity_at_most(most);
	layer->rounds_max = capacity_at_most(lesser(most, ROUNDS_CALM));
	layer->rounds_most = capacity_at_most(lesser(borrowing, ROUNDS_CALM));
	layer->rounds = capacity_at_most(layer->rounds_max / 4);
	umem_assert(layer->rounds <= layer->rounds_max);
	umem_assert(layer->rounds_max <= layer->rounds_crowded);
	umem_assert(layer->rounds_max <= layer->rounds_most);
	umem_assert(layer->rounds_crowded <= MAGAZINE_ROUNDS_MOST);
	depot_resize(layer);
}

/* Bytes that a cache with such magazines borrows for each CPU's two of them. */
static size_t
borrowed_bytes(const struct magazine_layer *layer, unsigned rounds)
{
	if (rounds <= layer->rounds_crowded)
		return 0;
	return 2 * (size_t)(rounds - layer->rounds_crowded) *
	       layer->object_bytes;
}

/*
 * Change the capacity from now to rounds.  Returns false if another thread has
 * changed it, or if it exceeds the budget that may be borrowed.
 */
static bool
resize(struct magazine_layer *layer, uint32_t now, unsigned rounds)
{
	size_t more =
	    borrowed_bytes(layer, rounds) - borrowed_bytes(layer, now);

	umem_assert(rounds >= capacities[0] && rounds <= MAGAZINE_ROUNDS_MOST);
	umem_assert(rounds != now);

	if (__atomic_add_fetch(&sizes_borrowed, more, __ATOMIC_RELAXED) >
		BORROWED_MOST &&
	    rounds > now && more != 0)
		goto refuse;
	if (!__atomic_compare_exchange_n(&layer->rounds, &now, rounds, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		goto refuse;
	depot_resize(layer);
	return true;
refuse:
	__atomic_sub_fetch(&sizes_borrowed, more, __ATOMIC_RELAXED);
	return false;
}

void
sizes_end(struct magazine_layer *layer)
{
	__atomic_sub_fetch(&sizes_borrowed,
	    borrowed_bytes(layer, layer->rounds), __ATOMIC_RELAXED);
}

/* Increase the capacity by one step if it is below most. */
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

/* Was the lock contended? */
static bool
is_crowd(struct lock_counts counts)
{
	return counts.ncontended > magazine_max_contention &&
	       counts.ncontended > counts.nacquired / CROWD;
}

bool
sizes_grow_if_met(struct magazine_layer *layer, struct lock_counts behind)
{
	/* One acquisition of a depot's lock usually moves two magazines. */
	struct lock_counts now = {
	    shards_nmoved(layer) / 2, shards_ncontended(layer)};
	struct lock_counts here = {now.nacquired - layer->lock_counts.nacquired,
	    now.ncontended - layer->lock_counts.ncontended};

	layer->lock_counts = now;
	if (here.ncontended + behind.ncontended <= magazine_max_contention)
		return false;
	__atomic_store_n(&layer->pressure, 0, __ATOMIC_RELAXED);
	grow_to(layer, is_crowd(here) || is_crowd(behind)
			   ? layer->rounds_crowded
			   : layer->rounds_max);
	return true;
}

void
magazine_shrink(struct magazine_layer *layer)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (now > capacities[0])
		resize(layer, now, capacity_at_most(now - 1));
}

void
sizes_flow(struct magazine_layer *layer, uint32_t nmoved)
{
	__atomic_store_n(&layer->flowed, 1, __ATOMIC_RELAXED);
	if (nmoved % FLOW == 0)
		grow_to(layer, layer->rounds_most);
}

void
sizes_overflowed(struct magazine_layer *layer, struct cpu_cold *cold)
{
	if (cold->underflowed == 0)
		return;
	cold->underflowed = 0;
	/*
	 * At the largest capacity, avoid a store to a cache line that all CPUs
	 * read.
	 */
	if (__atomic_load_n(&layer->rounds, __ATOMIC_RELAXED) >=
	    layer->rounds_max)
		return;
	if (__atomic_add_fetch(&layer->pressure, 1, __ATOMIC_RELAXED) >=
	    PRESSURE_MAX)
		magazine_grow(layer);
}

void
sizes_return_borrowed(struct magazine_layer *layer)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (__atomic_exchange_n(&layer->flowed, 0, __ATOMIC_RELAXED) == 0 &&
	    now > layer->rounds_max)
		resize(layer, now, layer->rounds_max);
}

/* Set the limit of the depot unless it is out of range. */
static void
depot_set_room(struct magazine_layer *layer, size_t bytes)
{
	if (bytes < depot_least() || bytes > magazine_depot_most)
		return;
	umem_assert(bytes <= UINT32_MAX);
	__atomic_store_n(
	    &layer->depot_bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
	depot_resize(layer);
}

void
sizes_refilled(struct magazine_layer *layer)
{
	__atomic_store_n(&layer->overflowed, 0, __ATOMIC_RELAXED);
	depot_set_room(layer,
	    2 * (size_t)__atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED));
}

void
sizes_shrink_depot(struct magazine_layer *layer)
{
	depot_set_room(
	    layer, __atomic_load_n(&layer->depot_bytes, __ATOMIC_RELAXED) / 2);
}
