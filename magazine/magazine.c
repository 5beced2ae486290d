/*
 * magazine.c - one cache's magazines: the slow paths after a section's miss
 *
 * Two magazines for each CPU
 *	With one magazine, a program that alternates between allocations and
 *	frees while the magazine is full or empty would need the depot each
 *	time.  With a previous magazine the CPU swaps the two.  It needs the
 *	depot only after at least a whole magazine of allocations or of frees.
 *
 * Rebalance
 *	The swap itself takes a hundred times as long as an operation without
 *	one, if its cache lines have left the cache.  If one magazine is full
 *	and the other empty, an operation of the other kind would need the next
 *	swap at once.  Therefore the newest rounds of the full magazine, half
 *	of them but at most SHARE_MAX, move to the empty one.  The next swap
 *	then is so many operations of one kind away, for allocations and for
 *	frees.  A program that allocates and frees at random needs a tenth of
 *	the swaps.  The CPU still passes only full magazines to the depot,
 *	because it fills a magazine with free space first.
 *
 * Cold CPU
 *	The first object that is freed on a CPU without a magazine was most
 *	likely allocated on another CPU.  If it is smaller than a cache line,
 *	that CPU may use a neighbour in the same line.  If the object were
 *	allocated next, the two CPUs would share the line as long as both
 *	objects are used.  To avoid this false sharing, the CPU starts with a
 *	magazine of rounds from the slabs, and the object is stored below them
 *	if the slabs have enough rounds.
 *
 * Refill
 *	A CPU asks the slabs for few rounds at first and for twice as many each
 *	time, up to a whole magazine.  Otherwise a program that allocates three
 *	objects of a size would touch a page of them.
 *	    The header is owned once for a refill, to load the magazine.  It is
 *	not owned while the slabs are asked, because they may create a slab, by
 *	system calls and functions of the program.  Before that an estimate is
 *	enough: if this CPU and the depot seem to have no rounds, magazine_get()
 *	says so without ownership (cpu_seems_empty() has the argument).
 *
 * sizes.c determines the capacities of magazines and depot, shards.c implements
 * the shards of the depot.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#include <limits.h>
#include <string.h>

#include "magazine/described.h"
#include "magazine/cpu_marks.h"
#include "magazine/shards.h"
#include "magazine/sizes.h"
#include "vmem/meta.h"
#include "vmem/panic.h"
#include "vmem/probe.h"
#include "vmem/describe.h"

/* Most rounds moved by a rebalance: four cache lines in either magazine. */
#define SHARE_MAX 32

/* The shard of a CPU.  CPU numbers above nrun use the shards in rotation. */
static unsigned
shard_of(const struct magazine_layer *layer, unsigned cpu)
{
	return likely(layer->nshards == 1)
		   ? 0
		   : cpu / layer->shard_cpus % layer->nshards;
}

/* The shard of the CPU on which the caller runs. */
static unsigned
shard_here(const struct magazine_layer *layer)
{
	return likely(layer->nshards == 1) ? 0 : shard_of(layer, cpu_now());
}

/* The shard of a CPU as a depot. */
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

/* depot_trade_for_full() with the own shard first. */
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

/*
 * Racy estimate: has the depot a full magazine?  A miss that does not see one
 * asks the slabs, which is never wrong.
 */
static bool
depot_seems_full(struct magazine_layer *layer)
{
	if (likely(layer->nshards == 1))
		return __atomic_load_n(
			   &layer->depot.full.head, __ATOMIC_RELAXED) != NULL;
	return shards_nfull(layer) != 0;
}

/*
 * depot_trade_for_empty() with the own shard first.  Adds WORK_SURPLUS to
 * *work if the shard is above its limit afterwards.
 */
static struct magazine *
trade_for_empty(struct magazine_layer *layer, unsigned cpu,
    struct magazine *full, unsigned *work)
{
	struct depot *with = &layer->depot;
	struct magazine *empty;

	if (likely(layer->nshards == 1))
		empty = depot_trade_for_empty(with, full);
	else
		empty = shards_trade(layer, shard_of(layer, cpu),
		    /* for_full */ false, full, &with);
	if (empty != NULL && depot_is_over(with))
		*work |= WORK_SURPLUS;
	return empty;
}

/* Take an empty magazine from any shard; NULL: there is none. */
static struct magazine *
take_empty(struct magazine_layer *layer)
{
	struct depot *with;

	if (likely(layer->nshards == 1))
		return depot_take_empty(&layer->depot);
	return shards_trade(
	    layer, shard_here(layer), /* for_full */ false, NULL, &with);
}

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
	layer->is_marked = true;
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
	struct magazine *mag = meta_alloc_best_effort(magazine_bytes(rounds));

	if (mag != NULL)
		mag->capacity = rounds;
	return mag;
}

void
magazine_delete(struct magazine *mag)
{
	umem_assert(mag->nrounds == 0);
	umem_assert(mag->capacity > 0 && mag->capacity <= MAGAZINE_ROUNDS_MAX);
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
	/* Avoid a store to a cache line that all CPUs read. */
	if (unlikely(
		__atomic_load_n(&magazine_exchanged, __ATOMIC_RELAXED) == 0))
		__atomic_store_n(&magazine_exchanged, 1, __ATOMIC_RELAXED);
}

/* Loaded becomes previous and previous becomes loaded. */
static void
swap_magazines(struct cpu_owned *own)
{
	struct magazine *mag = own->cold->previous;

	umem_assert(mag == NULL || mag != own->cold->loaded);
	umem_assert(own->cold->loaded != NULL || own->nrounds == 0);
	own->cold->previous = own->cold->loaded;
	if (own->cold->previous != NULL)
		own->cold->previous->nrounds = own->nrounds;
	own->cold->loaded = mag;
	own->nrounds = mag == NULL ? 0 : mag->nrounds;
	note_exchange();
}

/*
 * Rebalance: if the loaded magazine is empty and the previous one full, move
 * some of the newest rounds, so that neither is full or empty.  Returns true if
 * rounds were moved.
 */
static bool
rebalance(struct cpu_owned *own)
{
	struct magazine *from = own->cold->previous, *to = own->cold->loaded;
	unsigned n;

	if (own->nrounds != 0 || from == NULL || to == NULL ||
	    from->nrounds != from->capacity)
		return false;
	n = from->nrounds / 2 < SHARE_MAX ? from->nrounds / 2 : SHARE_MAX;
	if (n >= to->capacity)
		return false;
	umem_assert(n > 0 && from != to);
	from->nrounds -= n;
	memcpy(to->round, from->round + from->nrounds, n * sizeof(void *));
	own->nrounds = n;
	note_exchange();
	return true;
}

/* Are some rounds of the layer marked? */
static inline bool
has_marks(const struct magazine_layer *layer)
{
	return unlikely(
		   layer->object_bytes <=
		   __atomic_load_n(&cpu_marks.bytes_max, __ATOMIC_RELAXED)) &&
	       layer->is_marked;
}

/* Decide whether an object is marked that no section will pop. */
static bool
decide_one(const struct magazine_layer *layer)
{
	return has_marks(layer) &&
	       cpu_marks.chooser->find(layer->object_bytes, 1) == 0;
}

/*
 * Release the owned header, and decide which of the loaded rounds is marked.
 * mark_newest: the newest one is.
 */
static inline void
release(
    const struct magazine_layer *layer, struct cpu_owned *own, bool mark_newest)
{
	if (has_marks(layer))
		own->nmarked =
		    mark_newest
			? own->nrounds
			: own->nrounds - cpu_marks.chooser->find(
					     layer->object_bytes, own->nrounds);
	cpu_release(own);
}

/* Was this slow push forced as a candidate? */
static enum candidate
take_candidate(const struct magazine_layer *layer)
{
	if (likely(
		__atomic_load_n(&cpu_marks.bytes_max, __ATOMIC_RELAXED) == 0))
		return CANDIDATE_NONE;
	return cpu_take_candidate(has_marks(layer) ? layer->object_bytes : 0);
}

/* Has the magazine another capacity than new magazines? */
static bool
is_stale(struct magazine_layer *layer, const struct magazine *mag)
{
	return mag->capacity !=
	       __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
}

/*
 * Both magazines are empty.  If one of them is stale, make it the previous one,
 * which the next trade gives away.  Returns true if the previous one is stale.
 */
static bool
stale_to_previous(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;

	if (cold->previous == NULL)
		return false;
	if (cold->loaded != NULL && is_stale(layer, cold->loaded) &&
	    !is_stale(layer, cold->previous))
		swap_magazines(own);
	return is_stale(layer, cold->previous);
}

/*
 * Replaces a magazine that is smaller than new ones.  Returns the larger one,
 * with its rounds, or the old one if there is no memory.  mag may be NULL.
 */
static struct magazine *
enlarged(struct magazine_layer *layer, struct magazine *mag, unsigned nrounds)
{
	struct magazine *larger;

	if (mag == NULL ||
	    mag->capacity >= __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED))
		return mag;
	larger = magazine_new(layer);
	if (larger == NULL)
		return mag;
	/* The layer may have shrunk since the test. */
	if (larger->capacity <= mag->capacity) {
		magazine_delete(larger);
		return mag;
	}
	memcpy(larger->round, mag->round, nrounds * sizeof(void *));
	larger->nrounds = nrounds;
	mag->nrounds = 0;
	magazine_delete(mag);
	return larger;
}

/*
 * The owned header has exchanged its two magazines, or has moved rounds from
 * one to the other.  If that happens often, they grow.  They are replaced here,
 * because a program whose objects fit into them never trades them.
 *
 * No section uses them meanwhile, because the header is owned; cpu_release()
 * publishes the new ones.  cpu_seems_empty() and cpu_prefetch(), which other
 * threads call, do not read the rounds of a magazine.  For the lock of meta see
 * add_magazine().
 */
static void
note_swapped(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;

	if (likely(++cold->nswaps % SIZES_SWAPS != 0))
		return;
	sizes_swapped(layer);
	cold->loaded = enlarged(layer, cold->loaded, own->nrounds);
	if (cold->previous != NULL)
		cold->previous =
		    enlarged(layer, cold->previous, cold->previous->nrounds);
}

/* A magazine was received from, or passed to, the depot or the slabs. */
static void
note_moved(struct magazine_layer *layer, const struct cpu_cold *cold)
{
	uint32_t nmoved = cold->nloads + cold->nunloads - cold->moved_at_update;

	if (unlikely(nmoved % SIZES_FLOW_STEP == 0))
		sizes_flow(layer, nmoved);
}

/*
 * Ensure that the loaded magazine of the owned header has rounds, by an
 * exchange if necessary.  Returns false if the depot has none.
 */
static bool
have_rounds(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *full, *empty;
	bool stale;

	if (own->nrounds > 0)
		return true;
	if (cold->previous != NULL && cold->previous->nrounds > 0) {
		if (!rebalance(own))
			swap_magazines(own);
		note_swapped(layer, own);
		umem_assert(own->nrounds > 0);
		return true;
	}
	stale = stale_to_previous(layer, own);
	empty = cold->previous;
	full = trade_for_full(layer, own->cpu, stale ? NULL : empty);
	if (full == NULL)
		return false;
	if (stale)
		magazine_delete(empty);
	umem_assert(full != empty);
	umem_assert(full->nrounds > 0 && full->nrounds <= full->capacity);
	cold->nloads++;
	cold->nreceived += full->nrounds;
	probe_fire(umem, depot_load, layer, own->cpu, full->nrounds);
	note_moved(layer, cold);
	cold->previous = full;
	swap_magazines(own);
	return true;
}

/*
 * Bytes of objects in the first refill of a CPU: about half a page, which the
 * first touch commits anyway.
 */
#define REFILL_FIRST 2048

/* Rounds of the next refill of a header with this refill; 0: its first. */
static unsigned
refill_rounds(const struct magazine_layer *layer, uint32_t refill)
{
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	unsigned want =
	    refill != 0 ? refill : REFILL_FIRST / layer->object_bytes + 1;

	return want < rounds ? want : rounds;
}

/* Count a refill of the owned header: the next one is twice as large. */
static void
note_refill(const struct magazine_layer *layer, struct cpu_cold *cold)
{
	unsigned rounds = __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
	uint32_t want = refill_rounds(layer, cold->refill);

	/* Atomic: cpu_seems_empty() reads it without ownership. */
	__atomic_store_n(
	    &cold->refill, want < rounds ? 2 * want : want, __ATOMIC_RELAXED);
}

enum magazine_result
magazine_get(struct magazine_layer *layer, void **object, unsigned *want)
{
	struct cpu_owned own;
	uint32_t refill;
	bool have, undecided;

	if (cpu_seems_empty(layer->hot, layer->cold, &refill) &&
	    !depot_seems_full(layer)) {
		*want = refill_rounds(layer, refill);
		return MAGAZINE_EMPTY;
	}
	cpu_prefetch(layer->hot);
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	undecided = own.nrounds == 0;
	have = have_rounds(layer, &own);
	if (have)
		*object = own.cold->loaded->round[--own.nrounds];
	else
		*want = refill_rounds(layer, own.cold->refill);
	release(layer, &own, /* mark_newest */ false);
	if (!have)
		return MAGAZINE_EMPTY;
	return unlikely(own.is_marked || (undecided && decide_one(layer)))
		   ? MAGAZINE_MARKED
		   : MAGAZINE_OK;
}

bool
magazine_marks_one(const struct magazine_layer *layer)
{
	return decide_one(layer);
}

/* Has the loaded magazine free space? */
static bool
loaded_has_room(const struct cpu_owned *own)
{
	return own->cold->loaded != NULL &&
	       own->nrounds < own->cold->loaded->capacity;
}

/* Count a full magazine that was passed to the depot. */
static void
note_unload(struct magazine_layer *layer, const struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;

	cold->nunloads++;
	probe_fire(umem, depot_unload, layer, own->cpu);
	note_moved(layer, cold);
}

/*
 * Trade the full previous magazine of the owned header for an empty one of the
 * depot.  Returns NULL if the depot has none, or if the one that it had was
 * stale; then the header has no previous magazine any more.
 */
static struct magazine *
trade_previous(
    struct magazine_layer *layer, struct cpu_owned *own, unsigned *work)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *empty =
	    trade_for_empty(layer, own->cpu, cold->previous, work);

	if (empty == NULL)
		return NULL;
	cold->previous = NULL;
	note_unload(layer, own);
	if (!is_stale(layer, empty))
		return empty;
	magazine_delete(empty);
	return NULL;
}

/*
 * Take *spare, or else create an empty magazine, for the owned header, and put
 * its previous magazine, if any, into the depot.  Returns NULL if there is no
 * memory; the header then keeps its magazines.
 *
 * An owner may allocate from meta: its lock is below the owner in the order of
 * fork() (cpu_fork.c), and its one call that takes long is an mmap() for every
 * 256 KiB of magazines and other structures.
 */
static struct magazine *
add_magazine(struct magazine_layer *layer, struct cpu_owned *own,
    struct magazine **spare, unsigned *work)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *mag = *spare != NULL ? *spare : magazine_new(layer);

	if (mag == NULL)
		return NULL;
	*spare = NULL;
	if (cold->previous != NULL) {
		if (depot_put_full(depot_of(layer, own->cpu), cold->previous))
			*work |= WORK_SURPLUS;
		note_unload(layer, own);
	}
	return mag;
}

/*
 * Ensure that the loaded magazine of the owned header has free space, by an
 * exchange if necessary.  Returns false if there is no memory for a magazine.
 */
static bool
have_room(struct magazine_layer *layer, struct cpu_owned *own,
    struct magazine **spare, unsigned *work)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *empty = NULL;

	if (loaded_has_room(own))
		return true;
	if (cold->previous != NULL &&
	    cold->previous->nrounds < cold->previous->capacity) {
		swap_magazines(own);
		rebalance(own);
		note_swapped(layer, own);
		return true;
	}
	if (cold->previous != NULL)
		empty = trade_previous(layer, own, work);
	if (empty == NULL)
		empty = add_magazine(layer, own, spare, work);
	if (empty == NULL)
		return false;
	umem_assert(empty->nrounds < empty->capacity);
	cold->previous = empty;
	swap_magazines(own);
	umem_assert(own->nrounds < cold->loaded->capacity);
	return true;
}

/*
 * Is the object one of the newest rounds of this CPU?  The rounds in the loaded
 * magazine are newer than those in the previous one.  round[0] is compared,
 * too, because put_round() may have stored the newest object there.
 */
static bool
is_among_newest(const struct cpu_owned *own, const void *object)
{
	const struct magazine *loaded = own->cold->loaded;
	const struct magazine *previous = own->cold->previous;
	unsigned n = own->nrounds;

	if (magazine_has_newest(loaded, n, MAGAZINE_NEWEST, object) ||
	    (n > 0 && loaded->round[0] == object))
		return true;
	return n < MAGAZINE_NEWEST && previous != NULL &&
	       magazine_has_newest(
		   previous, previous->nrounds, MAGAZINE_NEWEST - n, object);
}

/*
 * Store an object in the loaded magazine.  first: this is the first object on a
 * cold CPU, see the top of the file.  If it fills the magazine, it is stored
 * below the other rounds.  The next free then takes the slow path, too, and is
 * compared with it.
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

bool
magazine_is_cold(struct magazine_layer *layer)
{
	return cpu_seems_closed(layer->hot);
}

/* Run the section again, in which the push counter had run out. */
static bool
push_again(const struct magazine_layer *layer, void *object)
{
	uintptr_t at = (uintptr_t)layer->hot - (uintptr_t)cpu_layer.place.base;

	return rseq_push(&cpu_layer.place, at, object) == RSEQ_OK;
}

enum magazine_result
magazine_put(struct magazine_layer *layer, void *object,
    struct magazine **spare, unsigned *work)
{
	enum candidate candidate = take_candidate(layer);
	struct cpu_owned own;
	bool room, none;

	if (candidate == CANDIDATE_REJECTED && push_again(layer, object))
		return MAGAZINE_OK;
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	/* In locked mode there is no section that has counted this push. */
	if (cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE))
		*work |= WORK_TICKED;
	if (is_among_newest(&own, object)) {
		release(layer, &own, /* mark_newest */ false);
		return MAGAZINE_TWICE;
	}
	none = own.cold->loaded == NULL;
	room = have_room(layer, &own, spare, work);
	if (room)
		put_round(&own, object, none && own.nrounds > 0);
	release(layer, &own, room && candidate == CANDIDATE_ACCEPTED);
	return room ? MAGAZINE_OK : MAGAZINE_FULL;
}

/*
 * have_rounds() for a bulk request of want more rounds.  A previous magazine
 * that the request will use up is loaded as a whole, without a rebalance.
 */
static bool
have_rounds_for(
    struct magazine_layer *layer, struct cpu_owned *own, unsigned want)
{
	const struct magazine *previous = own->cold->previous;

	if (own->nrounds == 0 && previous != NULL && previous->nrounds > 0 &&
	    previous->nrounds <= want) {
		swap_magazines(own);
		return true;
	}
	return have_rounds(layer, own);
}

/*
 * Delete the magazines of an owned header that are empty and smaller than new
 * magazines.  Bulk requests that fit into two magazines never trade them with
 * the depot, on which occasion have_rounds() would delete them.
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
		swap_magazines(own);
		magazine_delete(cold->previous);
		cold->previous = NULL;
	}
}

unsigned
magazine_get_bulk(struct magazine_layer *layer, void **objects, unsigned n)
{
	struct cpu_owned own;
	unsigned got = 0;

	/* With a larger magazine, a section would have served the request. */
	if (n > __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED))
		magazine_grow(layer);
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return 0;
	while (got < n && have_rounds_for(layer, &own, n - got)) {
		unsigned nmore = own.nrounds < n - got ? own.nrounds : n - got;

		own.nrounds -= nmore;
		memcpy(objects + got, own.cold->loaded->round + own.nrounds,
		    nmore * sizeof(void *));
		got += nmore;
	}
	delete_small(layer, &own);
	release(layer, &own, /* mark_newest */ false);
	return got;
}

/*
 * Compares for magazine_distinct().  The empty assembly makes each comparison a
 * branch of its own.  Without it, gcc 12 joins three comparisons into one chain
 * of flags, which takes 1.3 ns an object; the branches, which the processor
 * predicts, take 0.7 ns (AMD Zen 3, 26 November 2026).
 */
static inline bool
is_same(const void *a, const void *b)
{
	__asm__("");
	return unlikely(a == b);
}

unsigned
magazine_distinct(void *const *objects, unsigned n)
{
	const void *last = NULL, *last_but_one = NULL;
	unsigned i;

	/* In pairs: the last two objects stay in their registers. */
	for (i = 0; i + 1 < n; i += 2) {
		const void *a = objects[i], *b = objects[i + 1];

		if (is_same(a, last) || is_same(a, last_but_one) ||
		    is_same(a, NULL))
			return i;
		if (is_same(b, a) || is_same(b, last) || is_same(b, NULL))
			return i + 1;
		last_but_one = a;
		last = b;
	}
	if (i < n && (objects[i] == last || objects[i] == last_but_one ||
			 objects[i] == NULL))
		return i;
	return n;
}

enum magazine_result
magazine_put_bulk(struct magazine_layer *layer, void *const *objects,
    unsigned *n, unsigned *work)
{
	struct magazine *spare = NULL;
	unsigned put = 0, want = magazine_distinct(objects, *n);
	enum magazine_result result = MAGAZINE_OK;
	enum candidate candidate;
	struct cpu_owned own;

	*n = 0;
	if (want == 0)
		return MAGAZINE_TWICE;
	candidate = take_candidate(layer);
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	if (cpu_ticked(&own, want))
		*work |= WORK_TICKED;
	if (is_among_newest(&own, objects[0])) {
		release(layer, &own, /* mark_newest */ false);
		return MAGAZINE_TWICE;
	}
	/* A surplus is flushed before more magazines fill the depot. */
	while (put < want && (*work & WORK_SURPLUS) == 0) {
		struct magazine *mag;
		unsigned nmore;

		if (!have_room(layer, &own, &spare, work)) {
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
	release(layer, &own, put != 0 && candidate == CANDIDATE_ACCEPTED);
	*n = put;
	return result;
}

/*
 * Load a magazine on the owned header, which has no rounds loaded.  Returns the
 * empty magazine for which the header has no place; NULL: none.
 */
static struct magazine *
load_filled(
    struct magazine_layer *layer, struct cpu_owned *own, struct magazine *mag)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *old = cold->loaded;

	umem_assert(own->nrounds == 0 && mag != old && mag != cold->previous);
	umem_assert(mag->nrounds <= mag->capacity);
	cold->loaded = mag;
	own->nrounds = mag->nrounds;
	cold->nloads++;
	cold->nrefills += mag->nrounds != 0;
	cold->nreceived += mag->nrounds;
	note_moved(layer, cold);
	if (old == NULL)
		return NULL;
	old->nrounds = 0;
	if (cold->previous != NULL)
		return old;
	cold->previous = old;
	return NULL;
}

void
magazine_refilled(struct magazine_layer *layer)
{
	if (unlikely(
		__atomic_load_n(&layer->overflowed, __ATOMIC_RELAXED) != 0))
		sizes_refilled(layer);
}

void
magazine_install(struct magazine_layer *layer, struct magazine *mag)
{
	struct magazine *rest = mag;
	struct cpu_owned own;

	umem_assert(mag == NULL || mag->nrounds > 0);
	magazine_refilled(layer);
	if (cpu_acquire(layer->hot, layer->cold, &own)) {
		note_refill(layer, own.cold);
		/* Another thread may have loaded rounds here meanwhile. */
		if (mag != NULL && own.nrounds == 0)
			rest = load_filled(layer, &own, mag);
		release(layer, &own, /* mark_newest */ false);
	}
	if (rest == NULL)
		return;
	if (rest->nrounds != 0)
		depot_put_full(depot_here(layer), rest);
	else if (is_stale(layer, rest))
		magazine_delete(rest);
	else
		depot_put_empty(depot_here(layer), rest);
}

bool
magazine_give(struct magazine_layer *layer, struct magazine *mag)
{
	static unsigned turn; /* [a] */
	unsigned shard = 0;

	/* Relaxed: any shard will do. */
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

bool
magazine_drain(struct magazine_layer *layer, struct magazine **chain)
{
	bool all;

	*chain = NULL;
	all = cpu_drain(layer->hot, layer->cold, NULL, chain);
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
magazine_rounds_estimate(struct magazine_layer *layer)
{
	return cpu_rounds_estimate(layer->hot) +
	       shards_nfull(layer) *
		   __atomic_load_n(&layer->rounds, __ATOMIC_RELAXED);
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
	cold->loaded = cold->previous = NULL;
	own->nrounds = 0;
}

void
magazine_take_near(struct magazine_layer *layer, struct magazine **chain)
{
	struct cpu_owned own;

	*chain = NULL;
	if (cpu_acquire(layer->hot, layer->cold, &own)) {
		take_both(&own, chain);
		release(layer, &own, /* mark_newest */ false);
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
	release(layer, &own, /* mark_newest */ false);
}

/* Have magazines been exchanged on this header since the last update? */
static bool
is_busy(struct cpu_cold *cold)
{
	uint32_t moved = cold->nloads + cold->nunloads;
	bool busy = moved != cold->moved_at_update;

	cold->moved_at_update = moved;
	return busy;
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
magazine_update(struct magazine_layer *layer, struct lock_counts behind,
    struct magazine **chain)
{
	bool surplus;

	*chain = NULL;
	cpu_drain(layer->hot, layer->cold, is_busy, chain);
	surplus = shards_take(layer, depot_take_surplus, chain);
	if (!sizes_grow_if_met(layer, behind)) {
		if (*chain != NULL && shards_nfull(layer) == 0)
			magazine_shrink(layer);
		sizes_return_budget(layer);
	}
	if (surplus)
		sizes_shrink_depot(layer);
}

DESCRIBE(DESCRIBED_MAGAZINES);
