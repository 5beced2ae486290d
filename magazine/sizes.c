/*
 * sizes.c - capacities of a cache's magazines and of its depot
 *
 * Size of magazines
 *	A magazine takes a power of two bytes, by which tools know it.  One of
 *	the base capacity (rounds_base) holds few objects, so that a cache that
 *	is seldom used keeps little memory: at most BASE_ROUNDS, and BASE_BYTES
 *	bytes of them, but two rounds in any case.
 *
 *	Beyond the base, magazines take bytes from the budget of a CPU, which
 *	all caches share: CPU_BUDGET_BYTES.  Each CPU has a capacity of its own
 *	for the magazines of a cache, because a CPU that is slow, or seldom uses
 *	the cache, saves little by large ones.  The capacity grows one step if
 *	the CPU has exchanged SIZES_GROWTH_EXCHANGES magazines of the cache
 *	since the last growth, or since the last update: sustained traffic, for
 *	which larger magazines avoid exchanges, with the depot or with the
 *	slabs.  CPUs that wait for the locks of these exchange magazines, too.
 *	A bulk request that is larger than a magazine makes it grow one step at
 *	once.
 *
 *	One cache takes no more than a quarter of the budget.  A CPU that
 *	exchanges no magazine either has large enough ones or does not use the
 *	cache.  An update takes its magazines.  If it needs them, it loads the
 *	rounds again, and keeps its capacity; if it loads few, twice as many
 *	become its capacity, and if none, the base.  The cache returns the bytes
 *	that no CPU's capacity needs, so budget moves from idle caches to busy
 *	ones within two intervals.  Magazines shrink below the base one step at
 *	an update if they were idle.  Growth needs no clock.
 *
 *	A new magazine has memory for the largest capacity of the CPUs
 *	(layer->rounds), because the depot passes it from CPU to CPU.  Each CPU
 *	that loads a magazine sets the capacity to its own, so no thread is
 *	stopped.  A magazine with other memory is deleted when a thread finds it
 *	empty.
 *
 *	Because the rate of exchanges decides, a program with a short burst of
 *	calls keeps small magazines.  SIZES_GROWTH_EXCHANGES take about 3 us, of
 *	an interval of 250 ms.
 *
 * Quota
 *	The budget bounds the bytes on each CPU, and all CPUs together can hold
 *	as many budgets as there are CPUs.  A cgroup can have a quota of
 *	processor time: with that of one CPU, and threads on 64 CPUs, each CPU
 *	works for the process only 1/64 of the time.  Then the CPUs together get
 *	the budgets of one CPU.
 *
 * Size of the depot
 *	Magazines beyond the limit of the depot are flushed to the slabs.  If
 *	the slabs are asked for rounds soon afterwards, the limit was too low
 *	and is doubled: from IDLE_MIN up to magazine_depot_most bytes for
 *	every 16 CPUs.  An update that finds a surplus in the depot halves it.
 *
 *	Each update flushes the surplus of the depot, which no CPU has used
 *	since the last update, to the slabs.  Growth of the heap does so
 *	earlier, because another cache may use the memory: refilling from the
 *	slabs costs less than page faults on so much new memory.  If all depots
 *	together hold much when the heap is asked for memory, they are emptied
 *	(umem/upkeep/reclaim.c).
 *
 * Source: Google's tcmalloc (docs/design.md there) has a budget of bytes for
 * each CPU, which size classes share.  Bonwick and Adams, "Magazines and Vmem",
 * USENIX 2001, section 3, let magazines grow where a lock is contended.
 */
#include "magazine/sizes.h"
#include "magazine/shards.h"
#include "magazine/target.h"

/* The unit of the budget (an option). */
size_t magazine_bytes_most = 64 * KIB;
/* A magazine of the base capacity has at most these bytes and rounds. */
#define BASE_BYTES       (magazine_bytes_most / 2)
#define BASE_ROUNDS      62
/*
 * The budget of a CPU: bytes beyond the base in the two magazines of all caches
 * together, 4 MiB by default.  One cache may take a quarter of it.
 */
#define CPU_BUDGET_BYTES (64 * magazine_bytes_most)
/*
 * The largest limit of a depot, in bytes, for every 16 CPUs, because what they
 * pass to each other grows with their number; the initial one is IDLE_MIN.
 */
size_t magazine_depot_most = 16 * MIB;
#define DEPOT_MOST  (magazine_depot_most * (1 + (cpu_layer.nrun - 1) / 16))
#define DEPOT_LEAST ((uint32_t)size_min(magazine_depot_most, IDLE_MIN))

static const uint16_t capacities[] = {
    2, 6, 14, 30, 62, 126, 254, 510, 1022, 2046, MAGAZINE_ROUNDS_MAX};

size_t sizes_budget_used;

/* The largest capacity of at most nrounds, or the smallest capacity. */
static unsigned
capacity_at_most(size_t nrounds)
{
	unsigned i = array_size(capacities) - 1;

	while (i > 0 && capacities[i] > nrounds)
		i--;
	return capacities[i];
}

size_t
sizes_cpu_budget(void)
{
	umem_assert(
	    cpu_layer.nquota != 0 && cpu_layer.nquota <= cpu_layer.nrun);
	return CPU_BUDGET_BYTES * cpu_layer.nquota / cpu_layer.nrun;
}

/* Set the limit in magazines, after a change of capacity or depot_bytes. */
static void
depot_resize(struct magazine_layer *layer)
{
	size_t each =
	    (size_t)load_relaxed(&layer->rounds) * layer->object_bytes;
	size_t most = load_relaxed(&layer->depot_bytes);

	if (layer->keeps_none)
		shards_bound(layer, 0);
	else
		/* Round up by one unless a magazine is a quarter of it. */
		shards_bound(layer, most / (each + 1) + (each < most / 4));
}

void
sizes_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max)
{
	size_t base = size_min(BASE_BYTES / object_bytes, BASE_ROUNDS);
	size_t most = sizes_cpu_budget() / 8 / object_bytes;

	if (rounds_max != 0)
		most = size_min(most, rounds_max);
	layer->object_bytes =
	    object_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)object_bytes;
	layer->depot_bytes = DEPOT_LEAST;
	layer->rounds_most = (uint16_t)capacity_at_most(most);
	layer->rounds_base = (uint16_t)capacity_at_most(size_min(base, most));
	layer->rounds = layer->rounds_base;
	umem_assert(layer->rounds_base <= layer->rounds_most);
	depot_resize(layer);
}

/* Bytes that a cache with such magazines takes from the budget of each CPU. */
static size_t
budget_bytes(const struct magazine_layer *layer, unsigned rounds)
{
	if (rounds <= layer->rounds_base)
		return 0;
	return 2 * (size_t)(rounds - layer->rounds_base) * layer->object_bytes;
}

/* Takes bytes from the budget; false if it has less. */
static bool
budget_take(size_t bytes)
{
	/* Look first: a write would take the line from the other CPUs. */
	if (load_relaxed(&sizes_budget_used) + bytes > sizes_cpu_budget())
		return false;
	if (add_relaxed(&sizes_budget_used, bytes) <= sizes_cpu_budget())
		return true;
	sub_relaxed(&sizes_budget_used, bytes);
	return false;
}

static void
budget_return(size_t bytes)
{
	sub_relaxed(&sizes_budget_used, bytes);
}

/*
 * Change the capacity from now to rounds.  Returns false if another thread has
 * changed it, or if the budget does not suffice.
 */
static bool
resize(struct magazine_layer *layer, uint32_t now, unsigned rounds)
{
	size_t has = budget_bytes(layer, now);
	size_t wants = budget_bytes(layer, rounds);

	umem_assert(rounds >= capacities[0] && rounds <= MAGAZINE_ROUNDS_MAX);
	umem_assert(rounds != now);
	if (wants > has && !budget_take(wants - has))
		return false;
	if (!__atomic_compare_exchange_n(&layer->rounds, &now, rounds, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		budget_return(wants > has ? wants - has : 0);
		return false;
	}
	budget_return(has > wants ? has - wants : 0);
	depot_resize(layer);
	return true;
}

void
sizes_end(struct magazine_layer *layer)
{
	budget_return(budget_bytes(layer, layer->rounds));
}

void
magazine_grow(struct magazine_layer *layer)
{
	unsigned now = load_relaxed(&layer->rounds);

	if (now < layer->rounds_most)
		resize(layer, now, capacity_at_most(2 * now + 2));
}

void
magazine_shrink(struct magazine_layer *layer)
{
	unsigned now = load_relaxed(&layer->rounds);

	if (now > capacities[0])
		resize(layer, now, capacity_at_most(now - 1));
}

unsigned
sizes_rounds(const struct magazine_layer *layer, const struct cpu_cold *cold)
{
	return (unsigned)size_min(load_relaxed(&layer->rounds),
	    size_max(cold->rounds, layer->rounds_base));
}

void
sizes_grow(struct magazine_layer *layer, struct cpu_cold *cold)
{
	unsigned now = sizes_rounds(layer, cold);

	if (now == load_relaxed(&layer->rounds))
		magazine_grow(layer);
	cold->rounds = capacity_at_most(2 * now + 2);
}

void
sizes_return_budget(struct magazine_layer *layer, unsigned most)
{
	unsigned now = load_relaxed(&layer->rounds);

	/* The smallest capacity that is not less. */
	most = capacity_at_most(2 * (size_t)most);
	if (now > most)
		resize(layer, now, most);
}

void
sizes_set_depot(struct magazine_layer *layer, size_t bytes)
{
	if (bytes < DEPOT_LEAST || bytes > size_min(DEPOT_MOST, UINT32_MAX))
		return;
	store_relaxed(&layer->depot_bytes, (uint32_t)bytes);
	depot_resize(layer);
}
