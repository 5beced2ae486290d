/*
 * cache_walk.c - walks over the list of caches
 *
 * A walk drops the lock of the list for its work on each cache.  Two things
 * make that safe.
 *
 * Pins
 *	The walk pins the cache: it counts itself in cache->npins, under the
 *	lock, for the time of the work.  umem_cache_destroy() unlinks the cache
 *	from the list first, so that no further walk finds it, and then waits
 *	until no pin is left.
 *	    A function of the program that the worker calls may destroy the very
 *	cache that the worker has pinned.  It cannot wait for itself.  So
 *	cache_walk_unlink() takes the pin away from the worker (worker_pin), and
 *	the worker does not touch the cache again.
 *
 * Positions
 *	The next cache of a walk is a position, which cache_walk_unlink()
 *	advances past a cache that it removes.  So a walk goes on however many
 *	caches are destroyed during its work.
 *
 * Walks over some caches
 *	Work for which malloc() waits must not take time for every cache,
 *	because a program may create tens of thousands.  Such a walk covers the
 *	caches of the size classes and at most WALK_OTHERS of the other caches,
 *	and resumes where the last walk for the same purpose ended.  A sum over
 *	all caches (cache_walk_sum()) adds the value that each cache had when a
 *	walk last reached it: it is exact for up to WALK_OTHERS other caches.
 *
 * fork()
 *	Pins are valid only in the process that made them, because the threads
 *	that hold them do not exist in the child.  The child sets all pins to 0.
 *	A thread that forks itself during its work, in a signal handler or a
 *	callback, sees by cache_nforks that its pin is void.  By the same number
 *	a thread that forks in a signal handler, while it waits in
 *	cache_walk_unlink(), sees in the child that there is nothing to wait
 *	for.  The child loses the memory that the walks of other threads were
 *	about to release, at most one chain of magazines each.
 *
 * Locking: cache_list_lock guards everything here.
 */
#include <string.h>

#include "umem/cache/cache_check.h"
#include "umem/cache/cache_hooks.h"
#include "umem/cache/cache_walk.h"
#include "umem/cache/import.h"
#include "umem/cache/worker.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Keeps a cache from being destroyed.  It lies on the stack of its walk. */
struct pin {
	struct umem_cache *cache; /* NULL: taken away, as it destroys itself */
	uint32_t nforks;          /* of the process that the pin is valid in */
};

/* A walk in progress. */
struct walk_state {
	struct list *
	    *position; /* next cache of no class; NULL: from the first */
	struct list *class_at; /* the last cache of a class; NULL: past them */
	size_t nothers;        /* caches of no class that are still to come */
	bool is_full;          /* covers all caches, and so does not wrap */
};

uint32_t cache_nforks;

static struct list *positions[WALKS]; /* [l] of struct walk_state */
static struct pin *worker_pin;        /* [l] of the worker's walk, or NULL */
static uint32_t unpin_count;          /* [a] counts unpins, to wait on */
static unsigned nunlinking;           /* [l] threads that wait for an unpin */
static size_t tallies[TALLIES];       /* [l] sums; see above */

static struct pin
pin_locked(struct umem_cache *cache)
{
	lock_assert_held(&cache_list_lock);
	cache->npins++;
	umem_assert(cache->npins != 0);
	return (struct pin){.cache = cache, .nforks = cache_nforks};
}

static void
unpin_locked(const struct pin *pin)
{
	lock_assert_held(&cache_list_lock);
	if (pin->cache == NULL || pin->nforks != cache_nforks)
		return;
	umem_assert(pin->cache->npins != 0);
	pin->cache->npins--;
	__atomic_add_fetch(&unpin_count, 1, __ATOMIC_RELEASE);
	if (nunlinking != 0)
		os_futex_wake(&unpin_count, INT32_MAX);
}

static bool
is_other(const struct list *item)
{
	return item != &cache_list &&
	       container_of(item, struct umem_cache, link)->class == 0;
}

static struct walk_state
walk_begin_locked(unsigned walk)
{
	struct walk_state state = {.position = &positions[walk],
	    .class_at = &cache_list,
	    .nothers = cache_nothers,
	    .is_full = walk == WALK_ALL};

	lock_assert_held(&cache_list_lock);
	if (state.is_full) {
		state.nothers = SIZE_MAX;
		*state.position = NULL;
	} else if (state.nothers > WALK_OTHERS) {
		state.nothers = WALK_OTHERS;
	}
	return state;
}

/*
 * Because the caches of size classes are first in the list and are never
 * destroyed, class_at stays valid while the lock is dropped.
 */
static struct umem_cache *
next_class_locked(struct walk_state *state)
{
	struct list *item = state->class_at->next;

	lock_assert_held(&cache_list_lock);
	state->class_at = item;
	if (item != &cache_list && !is_other(item))
		return container_of(item, struct umem_cache, link);
	state->class_at = NULL;
	if (*state->position == NULL)
		*state->position = item;
	return NULL;
}

/* Returns the first cache of no class, or the head of the list. */
static struct list *
first_other_locked(void)
{
	struct list *item = cache_list.next;

	lock_assert_held(&cache_list_lock);
	while (item != &cache_list && !is_other(item))
		item = item->next;
	return item;
}

/* Returns the next cache of the walk, or NULL at its end. */
static struct umem_cache *
walk_next_locked(struct walk_state *state)
{
	struct umem_cache *cache;
	struct list *item;

	lock_assert_held(&cache_list_lock);
	if (state->class_at != NULL &&
	    (cache = next_class_locked(state)) != NULL)
		return cache;
	if (state->nothers == 0)
		return NULL;
	state->nothers--;
	item = *state->position;
	if (item == &cache_list && !state->is_full)
		item = first_other_locked();
	*state->position = item == &cache_list ? item : item->next;
	if (item == &cache_list)
		return NULL;
	cache = container_of(item, struct umem_cache, link);
	umem_assert(cache->class == 0);
	return cache;
}

#ifdef UMEM_DEBUG
static bool
position_is_right(const struct list *position)
{
	if (position == NULL || position == &cache_list)
		return true;
	list_foreach (cache, &cache_list, struct umem_cache, link)
		if (&cache->link == position)
			return cache->class == 0;
	return false;
}

/* The caches of size classes are first, in their order, and are found there. */
static bool
class_is_right(const struct umem_cache *cache, unsigned class_before)
{
	return cache->class > class_before &&
	       class_cache_if_made(cache->class) == cache;
}

bool
cache_list_check_locked(void)
{
	static size_t ncalls; /* [l] */
	size_t nothers = 0, sum[TALLIES] = {0};
	unsigned class = 0;

	lock_assert_held(&cache_list_lock);
	if (!check_is_due(&ncalls, cache_nothers))
		return true;
	list_foreach (cache, &cache_list, const struct umem_cache, link) {
		if (cache->link.next->prev != &cache->link)
			return false;
		if (cache->class == 0)
			nothers++;
		else if (nothers != 0 || !class_is_right(cache, class))
			return false;
		else
			class = cache->class;
		for (unsigned i = 0; i < TALLIES; i++)
			sum[i] += cache->tally[i];
	}
	for (unsigned i = 0; i < WALKS; i++)
		if (!position_is_right(positions[i]))
			return false;
	return nothers == cache_nothers &&
	       memcmp(sum, tallies, sizeof(sum)) == 0;
}
#endif

/* May the work on this cache call functions of the program? */
static bool
calls_program(const struct umem_cache *cache)
{
	return cache->destruct != NULL || cache->reclaim != NULL ||
	       !cache->has_heap_slabs;
}

/* Does the worker's work on a cache; drops the lock for it. */
static bool
work_on_locked(struct umem_cache *cache, bool (*f)(struct umem_cache *))
{
	struct pin pin = pin_locked(cache);
	bool any = false;

	worker_pin = &pin;
	lock_release(&cache_list_lock);
	umem_assert(cache_check(cache));
	if (cache_upkeep.enter(calls_program(cache))) {
		any = f(cache);
		cache_upkeep.leave();
	}
	lock_take(&cache_list_lock);
	/*
	 * In a child that the work has forked, the pin may be another walk's.
	 */
	if (worker_pin == &pin)
		worker_pin = NULL;
	unpin_locked(&pin);
	return any;
}

bool
cache_walk_as_worker(enum cache_walk walk, bool (*f)(struct umem_cache *))
{
	struct umem_cache *cache;
	struct walk_state state;
	bool any = false;

	lock_take(&cache_list_lock);
	state = walk_begin_locked(walk);
	/* The turn of a worker that forks in a callback ends with the fork. */
	while (worker_is_self() && (cache = walk_next_locked(&state)) != NULL)
		any |= work_on_locked(cache, f);
	lock_release(&cache_list_lock);
	return any;
}

void
cache_walk_beside_worker(enum cache_walk walk,
    bool (*wanted)(struct umem_cache *), bool (*f)(struct umem_cache *, void *),
    void *arg)
{
	struct umem_cache *cache;
	struct walk_state state;
	bool goes_on = true;

	/* The worker alone walks over all caches. */
	umem_assert(walk != WALK_ALL);
	lock_take(&cache_list_lock);
	state = walk_begin_locked(walk);
	while (goes_on && (cache = walk_next_locked(&state)) != NULL) {
		struct pin pin;

		if (!wanted(cache))
			continue;
		pin = pin_locked(cache);
		lock_release(&cache_list_lock);
		goes_on = f(cache, arg);
		lock_take(&cache_list_lock);
		unpin_locked(&pin);
	}
	lock_release(&cache_list_lock);
}

size_t
cache_walk_sum(enum tally tally, size_t (*f)(struct umem_cache *))
{
	struct umem_cache *cache;
	struct walk_state state;
	size_t sum;

	lock_take(&cache_list_lock);
	umem_assert(tally < TALLIES);
	state = walk_begin_locked(WALK_TALLY + (unsigned)tally);
	while ((cache = walk_next_locked(&state)) != NULL) {
		size_t now = f(cache);

		tallies[tally] += now - cache->tally[tally];
		cache->tally[tally] = now;
	}
	sum = tallies[tally];
	lock_release(&cache_list_lock);
	return sum;
}

/* Removes a cache from the list, from all positions and from the sums. */
static void
unlink_locked(struct umem_cache *cache)
{
	lock_assert_held(&cache_list_lock);
	for (unsigned i = 0; i < WALKS; i++)
		if (positions[i] == &cache->link)
			positions[i] = cache->link.next;
	for (unsigned i = 0; i < TALLIES; i++)
		tallies[i] -= cache->tally[i];
	/* Walks rely on the caches of size classes. */
	umem_assert(cache->class == 0 && cache_nothers != 0);
	cache_nothers--;
	list_remove(&cache->link);
	umem_assert(cache_list_check_locked());
}

/* Waits until an unpin; drops the lock meanwhile. */
static void
await_unpin_locked(uint32_t nforks)
{
	uint32_t seen = load_acquire(&unpin_count);

	lock_assert_held(&cache_list_lock);
	nunlinking++;
	lock_release(&cache_list_lock);
	os_futex_wait(&unpin_count, seen, 0);
	lock_take(&cache_list_lock);
	if (nforks == cache_nforks)
		nunlinking--;
}

void
cache_walk_unlink(struct umem_cache *cache)
{
	uint32_t nforks;

	lock_take(&cache_list_lock);
	nforks = cache_nforks;
	unlink_locked(cache);
	if (worker_pin != NULL && worker_pin->cache == cache &&
	    worker_is_self()) {
		unpin_locked(worker_pin);
		worker_pin->cache = NULL;
	}
	while (cache->npins != 0 && nforks == cache_nforks)
		await_unpin_locked(nforks);
	lock_release(&cache_list_lock);
}

/*
 * In the child: no thread has a pin, waits for the limit, or has resources in
 * transit.  Writes only where there was one, because other pages stay shared.
 */
static void
cache_after_fork(struct umem_cache *cache)
{
	if (cache->npins != 0)
		cache->npins = 0;
	if (cache->limit.counts) {
		list_init(&cache->limit.waiting);
		cache->limit.nwaiting = 0;
	}
	if (cache->import != NULL) {
		cache->import->ncalls = 0;
		cache->import->nwaiting = 0;
	}
}

void
cache_walk_after_fork_locked(void)
{
	cache_nforks++;
	list_foreach (cache, &cache_list, struct umem_cache, link)
		cache_after_fork(cache);
	worker_pin = NULL;
	nunlinking = 0;
	/* Ends the wait of a thread that forked in await_unpin_locked(). */
	unpin_count++;
}
