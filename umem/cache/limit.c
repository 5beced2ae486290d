/*
 * limit.c - the number of objects that a program may hold
 *
 * A cache with a limit counts the objects that the program holds: those of
 * umem_cache_alloc() and its relatives, and those whose deferred free waits for
 * a grace period.  The restartable sections of the fast paths cannot count.  So
 * a cache that counts shows them the header that refuses (cache->fast_at), and
 * each call comes to the slow path, which counts by one atomic operation on a
 * word that all CPUs share, and then tries the section on the true header.  A
 * cache that does not count is not touched by any of this.
 *
 * A request counts its objects before it takes them, and a free after the
 * objects are where another request finds them.  Therefore the program never
 * holds more than the limit, and a request that may take n objects lacks
 * nothing but, perhaps, memory.  A request for several objects counts all of
 * them or none.
 *
 * Waiting
 *	Requests that wait stand in a queue, in order of arrival.  Their entries
 *	lie on their stacks.  A request of a later thread goes to the end of the
 *	queue, even if there would be room for it: otherwise small requests
 *	could keep a large one waiting for ever.  The freeing thread counts for
 *	the first in the queue (limit_grant_locked()) as soon as its objects
 *	fit, takes it out of the queue, and wakes it.
 *
 *	No wake-up is lost.  The waiting thread, with limit_lock held, writes
 *	nwaiting and then reads nheld (in limit_grant_locked()).  The freeing
 *	thread writes nheld and then reads nwaiting.  All four are sequentially
 *	consistent, so at least one thread sees what the other wrote: either the
 *	waiting thread finds room, or the freeing thread comes to the queue.
 *	The same is true of umem_cache_set_limit(), which writes most and then
 *	takes limit_lock, under which most is read.
 *
 *	The wait is no cancellation point.  A signal handler runs during the
 *	wait, which goes on afterwards until its time is over.
 *
 * fork()
 *	A child has the count of its parent, because the objects of all threads
 *	are in its memory.  A request of another thread that was between its
 *	count and its object, or its free and its count, is counted in the child
 *	for ever.  No thread of the parent waits in the child, so its queues
 *	are empty.  A handler of a signal may have forked during a wait of the
 *	forking thread; then that wait goes on in the child, and puts its entry
 *	into the queue again, since nforks tells it that the queue was emptied.
 *
 * Source: uma_zone_set_max() of FreeBSD, which neither waits for a time nor
 * serves requests in order.
 */
#include <errno.h>

#include "umem/cache/cache.h"
#include "umem/cache/cache_check.h"
#include "umem/cache/cache_walk.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

#define NS_PER_MS 1000000ull

/* The state of a request until it has one of the results below. */
#define WAITER_WAITS UINT32_MAX

/* A request that waits, on the stack of its thread. */
struct waiter {
	struct list link; /* [q] */
	size_t n;
	/*
	 * [a] WAITER_WAITS, or the result; written with [q].  0: its objects
	 * count; EAGAIN: there are more than the limit; ECANCELED: the cache
	 * was destroyed.
	 */
	uint32_t state;
	uint32_t nforks; /* of the process that the entry is queued in */
};

struct lock limit_lock = LOCK_INITIALIZER(LOCK_LIMIT);

/* Counts n objects if the limit allows. */
static bool
limit_try_count(struct limit *limit, size_t n)
{
	size_t held = __atomic_load_n(&limit->nheld, __ATOMIC_SEQ_CST);

	do {
		size_t most = load_relaxed(&limit->most);

		if (n > most || held > most - n)
			return false;
	} while (!__atomic_compare_exchange_n(&limit->nheld, &held, held + n,
	    true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return true;
}

/* Ends the wait of a request.  Its entry may be gone when this returns. */
static void
waiter_end_locked(struct limit *limit, struct waiter *waiter, int error)
{
	lock_assert_held(&limit_lock);
	umem_assert(waiter->state == WAITER_WAITS && error >= 0);
	umem_assert(waiter->nforks == cache_nforks && limit->nwaiting != 0);
	list_remove(&waiter->link);
	sub_relaxed(&limit->nwaiting, 1);
	/* Release; pairs with the load of the state. */
	store_release(&waiter->state, (uint32_t)error);
	/* A wake-up of a word that is no longer one of ours does no harm. */
	os_futex_wake(&waiter->state, 1);
}

/* Serves as many from the head of the queue as the limit allows. */
static void
limit_grant_locked(struct limit *limit)
{
	lock_assert_held(&limit_lock);
	while (limit->waiting.next != &limit->waiting) {
		struct waiter *first =
		    container_of(limit->waiting.next, struct waiter, link);

		if (!limit_try_count(limit, first->n))
			return;
		waiter_end_locked(limit, first, 0);
	}
}

/* Ends the waits of requests for more objects than the limit. */
static void
limit_refuse_large_locked(struct limit *limit)
{
	size_t most = load_relaxed(&limit->most);
	struct list *item = limit->waiting.next;

	lock_assert_held(&limit_lock);
	while (item != &limit->waiting) {
		struct waiter *waiter = container_of(item, struct waiter, link);

		item = item->next;
		if (waiter->n > most)
			waiter_end_locked(limit, waiter, EAGAIN);
	}
}

#ifdef UMEM_DEBUG
bool
limit_check_locked(const struct limit *limit)
{
	static size_t ncalls; /* [a] */
	uint32_t n = 0;

	lock_assert_held(&limit_lock);
	if (!check_is_due(&ncalls, limit->nwaiting))
		return true;
	list_foreach (waiter, &limit->waiting, const struct waiter, link) {
		if (waiter->link.next->prev != &waiter->link ||
		    waiter->n == 0 || waiter->state != WAITER_WAITS ||
		    waiter->nforks != cache_nforks)
			return false;
		n++;
	}
	return n == limit->nwaiting && (limit->counts || n == 0);
}
#endif

static void
limit_grant(struct limit *limit)
{
	lock_take(&limit_lock);
	limit_grant_locked(limit);
	umem_assert(limit_check_locked(limit));
	lock_release(&limit_lock);
}

static void
waiter_queue_up(struct limit *limit, struct waiter *waiter)
{
	lock_take(&limit_lock);
	waiter->nforks = cache_nforks;
	list_add_tail(&limit->waiting, &waiter->link);
	__atomic_add_fetch(&limit->nwaiting, 1, __ATOMIC_SEQ_CST);
	/* The limit may have changed since the request looked at it. */
	if (waiter->n > load_relaxed(&limit->most))
		waiter_end_locked(limit, waiter, EAGAIN);
	limit_grant_locked(limit);
	umem_assert(limit_check_locked(limit));
	lock_release(&limit_lock);
}

/* The time is over.  Returns the state in which the entry leaves the queue. */
static uint32_t
waiter_give_up(struct limit *limit, struct waiter *waiter)
{
	uint32_t state;

	lock_take(&limit_lock);
	state = load_acquire(&waiter->state);
	if (state == WAITER_WAITS && waiter->nforks == cache_nforks) {
		list_remove(&waiter->link);
		sub_relaxed(&limit->nwaiting, 1);
		/* The next one may ask for less. */
		limit_grant_locked(limit);
		umem_assert(limit_check_locked(limit));
	}
	lock_release(&limit_lock);
	return state;
}

/* Returns 0, and then the objects count, or an error. */
static int
waiter_wait(struct limit *limit, size_t n, int32_t wait_ms)
{
	struct waiter waiter = {.n = n, .state = WAITER_WAITS};
	uint64_t end = os_exact_ns() + (uint64_t)wait_ms * NS_PER_MS;
	uint32_t state;

	waiter_queue_up(limit, &waiter);
	add_relaxed(&limit->nwaits, 1);
	while ((state = load_acquire(&waiter.state)) == WAITER_WAITS) {
		uint64_t now = wait_ms < 0 ? 0 : os_exact_ns();

		if (wait_ms >= 0 && now >= end) {
			state = waiter_give_up(limit, &waiter);
			break;
		}
		if (unlikely(waiter.nforks != cache_nforks))
			waiter_queue_up(limit, &waiter);
		else
			os_futex_wait(&waiter.state, WAITER_WAITS,
			    wait_ms < 0 ? 0 : end - now);
	}
	return state == WAITER_WAITS ? ETIMEDOUT : (int)state;
}

int
limit_take_slow(umem_cache_t *cache, size_t n, int flags)
{
	struct limit *limit = &cache->limit;
	int32_t wait_ms = load_relaxed(&limit->wait_ms);
	int error = EAGAIN;

	/* A new request must not overtake those that wait. */
	if (likely(load_relaxed(&limit->nwaiting) == 0) &&
	    limit_try_count(limit, n))
		return 0;
	probe_fire(umem, limit, cache->name, n, load_relaxed(&limit->most));
	if (wait_ms != 0 && (flags & UMEM_NOWAIT) == 0 &&
	    n <= load_relaxed(&limit->most))
		error = waiter_wait(limit, n, wait_ms);
	if (error != 0)
		add_relaxed(&limit->nrefused, 1);
	return error;
}

void
limit_give_slow(umem_cache_t *cache, size_t n)
{
	struct limit *limit = &cache->limit;
	size_t held = __atomic_sub_fetch(&limit->nheld, n, __ATOMIC_SEQ_CST);

	/* Objects that were never counted are not counted off. */
	umem_assert(held <= SIZE_MAX - n);
	if (unlikely(__atomic_load_n(&limit->nwaiting, __ATOMIC_SEQ_CST) != 0))
		limit_grant(limit);
}

void
limit_start(umem_cache_t *cache, const struct umem_cache_args *args)
{
	struct limit *limit = &cache->limit;

	if (args->limit == 0 && args->limit_wait == 0)
		return;
	limit->most = args->limit == 0 ? SIZE_MAX : args->limit;
	limit->wait_ms = args->limit_wait;
	limit->counts = true;
	cache_choose_fast(cache);
}

void
limit_end(umem_cache_t *cache)
{
	struct limit *limit = &cache->limit;

	if (!limit->counts)
		return;
	lock_take(&limit_lock);
	limit->counts = false;
	while (limit->waiting.next != &limit->waiting)
		waiter_end_locked(limit,
		    container_of(limit->waiting.next, struct waiter, link),
		    ECANCELED);
	umem_assert(limit_check_locked(limit));
	lock_release(&limit_lock);
}

public int
umem_cache_set_limit(umem_cache_t *cache, size_t n)
{
	if (!cache->limit.counts)
		return fail_int(ENOTSUP);
	store_relaxed(&cache->limit.most, n == 0 ? SIZE_MAX : n);
	lock_take(&limit_lock);
	limit_refuse_large_locked(&cache->limit);
	limit_grant_locked(&cache->limit);
	umem_assert(limit_check_locked(&cache->limit));
	lock_release(&limit_lock);
	return 0;
}

public int
umem_cache_set_limit_wait(umem_cache_t *cache, int ms)
{
	if (ms < -1)
		return fail_int(EINVAL);
	if (!cache->limit.counts)
		return fail_int(ENOTSUP);
	store_relaxed(&cache->limit.wait_ms, ms);
	return 0;
}

public int
umem_cache_limits(
    const umem_cache_t *cache, struct umem_cache_limits *out, size_t bytes)
{
	const struct limit *limit = &cache->limit;
	const struct cache_reserve *reserve = &cache->reserve;
	size_t most = load_relaxed(&limit->most);

	if (out == NULL || bytes != sizeof(*out))
		return fail_int(EINVAL);
	*out = (struct umem_cache_limits){.limit = most == SIZE_MAX ? 0 : most,
	    .in_use = load_relaxed(&limit->nheld),
	    .waiting = load_relaxed(&limit->nwaiting),
	    .waits = load_relaxed(&limit->nwaits),
	    .failures = load_relaxed(&limit->nrefused),
	    .reserve = load_relaxed(&reserve->want),
	    .ready = load_relaxed(&reserve->nready),
	    .used = load_relaxed(&reserve->nused)};
	return 0;
}
