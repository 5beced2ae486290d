/*
 * sizes.c - how much a cache's magazines and its depot hold
 *
 * Size of magazines
 *	Capacities are such that a magazine is a power of two bytes.  A cache
 *	starts small.  It grows one step when overflows follow underflows on
 *	one CPU some times between two updates (the cache went through more
 *	than its magazines hold, and a larger one would have helped) or when
 *	the lock of the depot or of the slabs is contended, and shrinks a step
 *	when a whole update passed without an exchange.
 *	Growth needs no clock, so a cold start is over in a few thousand
 *	operations.  Nothing stops for a new size: magazines carry their own
 *	capacity, and one of an old size ends when it comes by empty.
 *
 *	Usually 254 rounds are enough: a visit to the slabs of 150 to 500 ns
 *	is 2 ns an object at most.  But CPUs that only allocate meet there,
 *	and wait, if there are many of them: 14 to 24 that fill fresh memory
 *	with objects of one class keep the lock busy (reckoned).  What takes
 *	the time is the lines that go from one CPU to the next, as many for a
 *	thousand rounds as for a few.  So where more than one visit in CROWD
 *	had to wait between two updates, magazines grow to 1022 rounds within
 *	the same bytes, until an update finds little traffic.  Where fewer wait it does
 *	not pay: two CPUs, of whose visits one in 13 waits, are a twentieth
 *	slower with 1022, as the first cache holds fewer objects; if the lock
 *	is kept for 1 or 2 us longer each time, they need three fourths or half
 *	of the time.
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
 *	what all caches have beyond the above is LOANS_MOST bytes a CPU at most.
 *	A cache that an update finds without a flow, an eighth of that now,
 *	returns what it has borrowed.
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
 *	than the faults of so many new pages.  If all depots together hold much
 *	when the heap is asked for memory, they are emptied (umem's room.c).
 *
 * Source: growth on overflow after underflow is described for Google's
 * tcmalloc (docs/design.md there); growth where a lock is contended by Bonwick
 * and Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#include "magazine/sizes.h"
#include "magazine/shards.h"

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

static const uint16_t capacities[] = {2, 6, 14, 30, 62, 126, 254, 510, 1022};
#define ROUNDS_CALM 254
/* One in so many visits of a lock that has to wait is a crowd. */
#define CROWD       4

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

/* The depot's bound in magazines, after either of the two changed. */
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
		/* One more than that, unless it were a giant. */
		shards_bound(layer, most / (each + 1) + (each < most / 4));
}

static size_t
lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Of objects of this size, without a loan. */
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
	size_t borrowing = LOAN_TIMES * magazine_bytes_most / object_bytes;

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
	depot_resize(layer);
}

/* What a cache with such magazines has borrowed: a CPU has two. */
static size_t
loan(const struct magazine_layer *layer, unsigned rounds)
{
	if (rounds <= layer->rounds_crowded)
		return 0;
	return 2 * (size_t)(rounds - layer->rounds_crowded) *
	       layer->object_bytes;
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
sizes_end(struct magazine_layer *layer)
{
	__atomic_sub_fetch(&lent, loan(layer, layer->rounds), __ATOMIC_RELAXED);
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

static bool
is_crowd(struct magazine_visits visits)
{
	return visits.nwaited > magazine_max_contention &&
	       visits.nwaited > visits.n / CROWD;
}

bool
sizes_grow_if_met(struct magazine_layer *layer, struct magazine_visits behind)
{
	/* A visit moves two magazines, as a rule. */
	struct magazine_visits now = {
	    shards_nmoved(layer) / 2, shards_ncontended(layer)};
	struct magazine_visits here = {
	    now.n - layer->visits.n, now.nwaited - layer->visits.nwaited};

	layer->visits = now;
	if (here.nwaited + behind.nwaited <= magazine_max_contention)
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
sizes_exchanged(struct magazine_layer *layer, const struct cpu_cold *cold)
{
	uint32_t moved = cold->nloads + cold->nunloads - cold->moved_at_update;

	if (likely(moved % (FLOW / 8) != 0 || moved == 0))
		return;
	__atomic_store_n(&layer->flowed, 1, __ATOMIC_RELAXED);
	if (moved % FLOW == 0)
		grow_to(layer, layer->rounds_most);
}

void
sizes_overflowed(struct magazine_layer *layer, struct cpu_cold *cold)
{
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

void
sizes_return_loan(struct magazine_layer *layer)
{
	unsigned now = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);

	if (__atomic_exchange_n(&layer->flowed, 0, __ATOMIC_RELAXED) == 0 &&
	    now > layer->rounds_max)
		resize(layer, now, layer->rounds_max);
}

static void
depot_set_room(struct magazine_layer *layer, size_t bytes)
{
	if (bytes < depot_least() || bytes > magazine_depot_most)
		return;
	__atomic_store_n(
	    &layer->depot_bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
	depot_resize(layer);
}

void
sizes_refilled(struct magazine_layer *layer)
{
	if (likely(__atomic_load_n(&layer->overflowed, __ATOMIC_RELAXED) == 0))
		return;
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

size_t
magazine_lent(void)
{
	return __atomic_load_n(&lent, __ATOMIC_RELAXED);
}
