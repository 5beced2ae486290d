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
 * the shards of the depot, magazine_drain.c empties magazines and depots.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#include <string.h>

#include "magazine/magazine_inner.h"
#include "magazine/shards.h"
#include "magazine/sizes.h"
#include "vmem/meta.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

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

/*
 * depot_trade() with the own shard first.  *with becomes the shard that
 * supplied the magazine.
 */
static struct magazine *
layer_trade(struct magazine_layer *layer, unsigned shard, bool for_full,
    struct magazine *in, struct depot **with)
{
	*with = &layer->depot;
	if (likely(layer->nshards == 1))
		return depot_trade(*with, for_full, in);
	return shards_trade(layer, shard, for_full, in, with);
}

/*
 * Racy estimate: has the depot a full magazine?  A miss that does not see one
 * asks the slabs, which is never wrong.
 */
static bool
depot_seems_full(struct magazine_layer *layer)
{
	if (likely(layer->nshards == 1))
		return load_relaxed(&layer->depot.full.head) != NULL;
	return shards_nfull(layer) != 0;
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
magazine_alloc(unsigned capacity)
{
	struct magazine *mag = meta_alloc_best_effort(magazine_bytes(capacity));

	if (mag != NULL)
		mag->size = mag->capacity = (uint16_t)capacity;
	return mag;
}

struct magazine *
magazine_new(struct magazine_layer *layer)
{
	return magazine_alloc(load_relaxed(&layer->rounds));
}

void
magazine_delete(struct magazine *mag)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): none is NULL */
	umem_assert(mag->nrounds == 0);
	umem_assert(mag->size > 0 && mag->size <= MAGAZINE_ROUNDS_MAX);
	meta_free(mag, magazine_bytes(mag->size));
}

struct magazine *
magazine_empty(struct magazine_layer *layer)
{
	unsigned rounds = load_relaxed(&layer->rounds);
	struct magazine *mag;
	struct depot *with;

	while ((mag = layer_trade(layer, shard_here(layer),
		    /* for_full */ false, NULL, &with)) != NULL) {
		mag->capacity = mag->size;
		if (mag->size == rounds)
			return mag;
		magazine_delete(mag);
	}
	return magazine_new(layer);
}

/* Loaded becomes previous and previous becomes loaded. */
static inline void
swap_magazines(struct cpu_owned *own)
{
	struct magazine *mag = own->cold->previous, *old = own->cold->loaded;

	umem_assert(mag == NULL || mag != old);
	umem_assert(old != NULL || own->nrounds == 0);
	store_relaxed(&own->cold->previous, old);
	if (old != NULL)
		old->nrounds = own->nrounds;
	store_relaxed(&own->cold->loaded, mag);
	own->nrounds = mag == NULL ? 0 : mag->nrounds;
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
	return true;
}

/* Decide whether an object is marked that no section will pop. */
bool
magazine_marks_one(const struct magazine_layer *layer)
{
	return has_marks(layer) &&
	       cpu_marks.chooser->find(layer->object_bytes, 1) == 0;
}

/* Was this slow push forced as a candidate? */
static enum candidate
take_candidate(const struct magazine_layer *layer)
{
	if (likely(load_relaxed(&cpu_marks.bytes_max) == 0))
		return CANDIDATE_NONE;
	return cpu_take_candidate(has_marks(layer) ? layer->object_bytes : 0);
}

/* Has the magazine another size than new magazines? */
static bool
is_stale(struct magazine_layer *layer, const struct magazine *mag)
{
	return mag->size != load_relaxed(&layer->rounds);
}

/*
 * A magazine is about to be loaded: set its capacity to that of the CPU, or to
 * the rounds that it has.
 */
static void
capacity_set(const struct magazine_layer *layer, const struct cpu_cold *cold,
    struct magazine *mag)
{
	mag->capacity = (uint16_t)size_max(
	    mag->nrounds, size_min(mag->size, sizes_rounds(layer, cold)));
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

/* A magazine was received from, or passed to, the depot or the slabs. */
static void
note_moved(struct magazine_layer *layer, struct cpu_cold *cold)
{
	uint32_t nmoved = cold->nloads + cold->nunloads - cold->moved_at_update;

	if (unlikely(nmoved % SIZES_GROWTH_EXCHANGES == 0))
		sizes_grow(layer, cold);
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
	struct depot *with;
	bool stale;

	if (own->nrounds > 0)
		return true;
	if (cold->previous != NULL && cold->previous->nrounds > 0) {
		if (!rebalance(own))
			swap_magazines(own);
		umem_assert(own->nrounds > 0);
		return true;
	}
	stale = stale_to_previous(layer, own);
	empty = cold->previous;
	full = layer_trade(layer, shard_of(layer, own->cpu),
	    /* for_full */ true, stale ? NULL : empty, &with);
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
	capacity_set(layer, cold, full);
	store_relaxed(&cold->previous, full);
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
	if (refill == 0)
		refill = (uint32_t)size_min(
		    REFILL_FIRST / layer->object_bytes + 1, layer->rounds_base);
	return (unsigned)size_min(refill, load_relaxed(&layer->rounds));
}

/* Count a refill of the owned header: the next one is twice as large. */
static void
note_refill(const struct magazine_layer *layer, struct cpu_cold *cold)
{
	/* Atomic: cpu_seems_empty() reads it without ownership. */
	store_relaxed(&cold->refill,
	    (uint32_t)size_min((size_t)2 * refill_rounds(layer, cold->refill),
		sizes_rounds(layer, cold)));
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
	layer_release(layer, &own, /* mark_newest */ false);
	if (!have)
		return MAGAZINE_EMPTY;
	return unlikely(
		   own.is_marked || (undecided && magazine_marks_one(layer)))
		   ? MAGAZINE_MARKED
		   : MAGAZINE_OK;
}

/* Count a full magazine that was passed to the depot. */
static void
note_unload(struct magazine_layer *layer, struct cpu_owned *own)
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
	struct depot *with;
	struct magazine *empty = layer_trade(layer, shard_of(layer, own->cpu),
	    /* for_full */ false, cold->previous, &with);

	if (empty == NULL)
		return NULL;
	if (depot_is_over(with))
		*work |= WORK_SURPLUS;
	store_relaxed(&cold->previous, NULL);
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
		if (depot_put(magazine_shard(layer, shard_of(layer, own->cpu)),
			cold->previous))
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
have_space(struct magazine_layer *layer, struct cpu_owned *own,
    struct magazine **spare, unsigned *work)
{
	struct cpu_cold *cold = own->cold;
	struct magazine *empty = NULL;

	if (cold->loaded != NULL && own->nrounds < cold->loaded->capacity)
		return true;
	if (cold->previous != NULL &&
	    cold->previous->nrounds < cold->previous->capacity) {
		swap_magazines(own);
		rebalance(own);
		return true;
	}
	if (cold->previous != NULL)
		empty = trade_previous(layer, own, work);
	if (empty == NULL)
		empty = add_magazine(layer, own, spare, work);
	if (empty == NULL)
		return false;
	/* Its capacity tells a spare with rounds whether they are enough. */
	if (empty->nrounds == 0)
		capacity_set(layer, cold, empty);
	umem_assert(empty->nrounds < empty->capacity);
	store_relaxed(&cold->previous, empty);
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

	if (first && own->nrounds + 1 == mag->capacity) {
		mag->round[own->nrounds] = mag->round[0];
		mag->round[0] = object;
	} else {
		mag->round[own->nrounds] = object;
	}
	own->nrounds++;
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
	bool has_space, none;

	if (candidate == CANDIDATE_REJECTED && push_again(layer, object))
		return MAGAZINE_OK;
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	/* In locked mode there is no section that has counted this push. */
	if (cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE))
		*work |= WORK_TICKED;
	if (is_among_newest(&own, object)) {
		layer_release(layer, &own, /* mark_newest */ false);
		return MAGAZINE_TWICE;
	}
	none = own.cold->loaded == NULL;
	has_space = have_space(layer, &own, spare, work);
	if (has_space)
		put_round(&own, object, none && own.nrounds > 0);
	layer_release(
	    layer, &own, has_space && candidate == CANDIDATE_ACCEPTED);
	return has_space ? MAGAZINE_OK : MAGAZINE_FULL;
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
 * Delete a magazine of an owned header that is empty and smaller than the CPU's
 * capacity.  Bulk requests that fit into two magazines never trade them with
 * the depot, on which occasion have_rounds() would delete them.
 */
static void
delete_small(struct magazine_layer *layer, struct cpu_owned *own)
{
	struct cpu_cold *cold = own->cold;
	unsigned rounds = sizes_rounds(layer, cold);

	if (cold->loaded != NULL && own->nrounds == 0 &&
	    cold->loaded->capacity < rounds)
		swap_magazines(own);
	if (cold->previous != NULL && cold->previous->nrounds == 0 &&
	    cold->previous->capacity < rounds) {
		magazine_delete(cold->previous);
		store_relaxed(&cold->previous, NULL);
	}
}

unsigned
magazine_get_bulk(struct magazine_layer *layer, void **objects, unsigned n)
{
	struct cpu_owned own;
	unsigned got = 0;

	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return 0;
	/* With a larger magazine, a section would have served the request. */
	if (n > sizes_rounds(layer, own.cold))
		sizes_grow(layer, own.cold);
	while (got < n && have_rounds_for(layer, &own, n - got)) {
		unsigned nmore = own.nrounds < n - got ? own.nrounds : n - got;

		own.nrounds -= nmore;
		memcpy(objects + got, own.cold->loaded->round + own.nrounds,
		    nmore * sizeof(void *));
		got += nmore;
	}
	delete_small(layer, &own);
	layer_release(layer, &own, /* mark_newest */ false);
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
		layer_release(layer, &own, /* mark_newest */ false);
		return MAGAZINE_TWICE;
	}
	/* A surplus is flushed before more magazines fill the depot. */
	while (put < want && (*work & WORK_SURPLUS) == 0) {
		struct magazine *mag;
		unsigned nmore;

		if (!have_space(layer, &own, &spare, work)) {
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
	layer_release(layer, &own, put != 0 && candidate == CANDIDATE_ACCEPTED);
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
	capacity_set(layer, cold, mag);
	store_relaxed(&cold->loaded, mag);
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
	store_relaxed(&cold->previous, old);
	return NULL;
}

void
magazine_refilled(struct magazine_layer *layer)
{
	/* The depot flushed a magazine to the slabs not long ago: it grows. */
	if (unlikely(load_relaxed(&layer->overflowed) != 0)) {
		store_relaxed(&layer->overflowed, 0);
		sizes_set_depot(
		    layer, 2 * (size_t)load_relaxed(&layer->depot_bytes));
	}
}

/*
 * Put a magazine into a shard, or delete it if it is empty and stale.  Returns
 * true if the shard is above its limit now.
 */
static bool
put_into(struct magazine_layer *layer, unsigned shard, struct magazine *mag)
{
	if (mag->nrounds != 0 || !is_stale(layer, mag))
		return depot_put(magazine_shard(layer, shard), mag);
	magazine_delete(mag);
	return false;
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
		layer_release(layer, &own, /* mark_newest */ false);
	}
	if (rest != NULL)
		put_into(layer, shard_here(layer), rest);
}

bool
magazine_give(struct magazine_layer *layer, struct magazine *mag)
{
	static unsigned turn; /* [a] */
	unsigned shard = 0;

	/* Relaxed: any shard will do. */
	if (unlikely(layer->nshards > 1))
		shard = add_relaxed(&turn, 1) % layer->nshards;
	return put_into(layer, shard, mag);
}

struct magazine *
magazine_surplus(struct magazine_layer *layer)
{
	struct magazine *mag =
	    likely(layer->nshards == 1)
		? depot_trade(&layer->depot, /* for_full */ true, NULL)
		: shards_surplus(layer, shard_here(layer));

	if (mag != NULL)
		store_relaxed(&layer->overflowed, 1);
	return mag;
}
