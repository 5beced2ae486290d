/*
 * update.c - upkeep: trims working sets, returns memory to the kernel
 *
 * Kinds of upkeep
 *	update	for each cache: releases the depot's surplus, as measured over
 *		the last intervals, to the slabs, and changes the size of
 *		magazines; resizes hash tables of arenas; purges pages that
 *		have been free for a second
 *	reclaim	when the heap grows, or much is allocated from it: releases idle
 *		memory of caches to the slabs, so that it serves the next
 *		request (reclaim.c).  When an allocation has found no memory:
 *		calls the reclaim callbacks, then releases everything that is
 *		cached anywhere to the arenas, and repeats this while callbacks
 *		free something
 *	trim	reclaim as for an allocation, and purges every free page, also
 *		those between the chunks in use of partly used slabs
 *
 * When
 *	Slow paths read the clock, and do an update when it is due.  While there
 *	are free pages, one free in TICK_FREES takes the slow path for this
 *	purpose, so that a program reads the clock even if magazines serve all
 *	its calls.  If these ticks have been the only slow paths for the age at
 *	which memory is released, the program is idle: all idle bytes have this
 *	age, and are released at once.
 *
 *	In a process with several threads the upkeep thread does this instead,
 *	so that memory is released even if the program never calls again.  After
 *	some updates that found nothing to release, the thread sleeps until a
 *	slow path wakes it (update_thread.c).
 *
 *	One thread at a time does upkeep, the worker (worker.c).
 *
 * Functions of the program (destructors, reclaim callbacks, release functions
 * of sources)
 *	They may take a lock of the program.  Because a thread that holds that
 *	lock calls malloc() and free(), and uses other caches, none of these
 *	calls a function of the program, even if upkeep is due.  A cache whose
 *	slabs cannot be destroyed without such a call (cache->calls_out) keeps
 *	them.  Functions of the program are called
 *		by the upkeep thread, where there is one, for everything
 *		by umem_reap(), umem_cache_reap_now() and malloc_trim(), in the
 *		thread that calls these
 *		by a request for an object, alone or in bulk, that has found no
 *		memory, in the requesting thread, if the library has no thread
 *	Any other request that finds no memory while the library has a thread
 *	makes that thread call them, and waits for it at most PROGRAM_WAIT_NS,
 *	because the upkeep thread may be waiting for a lock that the caller
 *	holds.
 */
#include <assert.h>
#include <errno.h>

#include "umem/cache/cache_hooks.h"
#include "umem/cache/cache_walk.h"
#include "umem/base/ready.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/snapshot.h"
#include "umem/upkeep/soft_limit.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "magazine/target.h"
#include "vmem/vmem.h"

/* Bytes that the upkeep thread purges in one piece. */
#define PURGE_PIECE   (8 * MIB)
/* Frees between two ticks. */
#define TICK_FREES    250
/*
 * How often a request is tried again: RECLAIM_TRIES times in any case, once for
 * memory of the library's own structures and once for the request itself, and
 * up to RECLAIM_MAX times while reclaim callbacks free something.  A callback
 * that frees one object of 100 bytes each time has then freed a slab of them.
 */
#define RECLAIM_TRIES 2
#define RECLAIM_MAX   1000

static_assert(RECLAIM_TRIES <= RECLAIM_MAX, "callbacks add tries");

uint64_t update_interval_ns = 250000000;

static uint64_t due_ns;      /* [a] next update */
static uint32_t reap_wanted; /* [a] set by umem_reap() and by a reclaim */
static uint32_t reaps_done;  /* [a] by the upkeep thread, to wait on */

static uint64_t active_ns;      /* [a] last slow path that read the clock */
static uint32_t callbacks_free; /* [a] the last callbacks freed something */
static size_t nused;            /* [worker] chunks taken from slabs */

static bool
add_used(struct umem_cache *cache)
{
	nused += slab_used(&cache->slabs);
	return false;
}

static size_t
count_used(void)
{
	nused = 0;
	cache_walk_as_worker(WALK_ALL, add_used);
	return nused;
}

static bool
call_reclaim(struct umem_cache *cache)
{
	if (cache->reclaim == NULL)
		return false;
	cache->reclaim(cache->priv);
	return true;
}

static bool
reap_cache(struct umem_cache *cache)
{
	cache_reap(cache);
	return true;
}

/* Calls functions of the program. */
static void
reap_all(void)
{
	size_t chunks = count_used(), bytes = heap_used();
	bool has_callbacks = cache_walk_as_worker(WALK_ALL, call_reclaim);

	cache_walk_as_worker(WALK_ALL, reap_cache);
	store_relaxed(&callbacks_free,
	    has_callbacks && (count_used() < chunks || heap_used() < bytes));
}

/*
 * May this update call functions of the program?  The age at which it purges
 * pages of slabs, and how many bytes more.
 */
static bool may_call_now;      /* [worker] */
static unsigned purge_updates; /* [worker] */
static size_t purge_left;      /* [worker] */

static bool
update_and_purge(struct umem_cache *cache)
{
	bool has_more = cache_update(cache, may_call_now);

	return cache_purge_idle(cache, purge_updates, &purge_left) || has_more;
}

/*
 * Purges at most limit bytes of the heap.  The upkeep thread, which has no
 * limit, lets other threads run between two pieces.  Returns whether there was
 * anything to purge.
 */
static bool
purge_in_pieces(uint64_t age_ns, size_t limit)
{
	bool any = false;
	/* Each call reads the states of all units, so there are few calls. */
	size_t piece = align_up(heap_dirty() / 64, HEAP_UNIT), purged;

	if (limit != SIZE_MAX)
		return heap_purge(age_ns, limit) != 0;
	piece = size_max(piece, PURGE_PIECE);
	do {
		purged = heap_purge(age_ns, piece);
		any |= purged != 0;
		if (purged == piece)
			os_yield();
	} while (purged == piece);
	return any;
}

/*
 * Updates all caches.  Purges at most limit bytes in slabs and in the heap
 * each, at the age that the present pressure permits.  Returns whether there
 * was anything to release, or will be.
 */
static bool
update_memory(bool may_call, size_t limit)
{
	uint64_t age_ns;
	bool busy;

	umem_assert(worker_is_self());
	age_ns = reclaim_age(RECLAIM_AGE_NS, reclaim_page_pressure());
	may_call_now = may_call;
	/* The whole updates in the age, but one at least. */
	purge_updates = (unsigned)size_max(age_ns / update_interval_ns, 1);
	purge_left = limit;
	busy = cache_walk_as_worker(WALK_ALL, update_and_purge);
	return purge_in_pieces(age_ns, limit) || busy;
}

bool
update_may_purge(void)
{
	return heap_dirty() != 0 && os_may_purge();
}

bool
update_all(void)
{
	bool busy;

	umem_assert(worker_is_self());
	if (__atomic_exchange_n(&reap_wanted, 0, __ATOMIC_ACQUIRE) != 0) {
		reap_all();
		__atomic_add_fetch(&reaps_done, 1, __ATOMIC_RELEASE);
		os_futex_wake(&reaps_done, INT32_MAX);
	}
	/*
	 * In a child that a callback or a destructor has forked, the turn has
	 * ended (worker.c).
	 */
	if (!worker_is_self())
		return false;
	busy = update_memory(/* may_call */ true, SIZE_MAX);
	if (!worker_is_self())
		return false;
	if (!soft_limit_release(SIZE_MAX))
		reap_all();
	if (soft_limit_is_exceeded())
		purge_in_pieces(0, SIZE_MAX);
	return busy || update_may_purge();
}

/*
 * Donates a unit of the heap to the allocator of the library's own structures,
 * if that is exhausted.
 */
static bool
donate_to_meta(void)
{
	bool zeroed;
	void *at;

	if (!meta_is_exhausted())
		return false;
	at = heap_alloc(HEAP_UNIT, HEAP_UNIT, &zeroed);
	if (at == NULL)
		return false;
	meta_donate(at, HEAP_UNIT);
	return true;
}

/* Makes the upkeep thread reap soon. */
static void
reap_request(void)
{
	store_release(&reap_wanted, 1);
	update_thread_wake();
}

bool
update_reclaim(size_t size, unsigned ntried, bool may_call)
{
	int saved = errno;
	bool by_thread, has_more = false;
	size_t most;

	if (ntried >= RECLAIM_MAX ||
	    (ntried >= RECLAIM_TRIES && load_relaxed(&callbacks_free) == 0))
		return false;
	if (donate_to_meta())
		return true;
	/* A release cannot free more than this. */
	most = load_relaxed(&heap_limits.hard);
	if (size > (most != 0 ? most : heap_committed()))
		return false;
	if (!worker_begin())
		return worker_await(PROGRAM_WAIT_NS);
	by_thread = update_has_thread();
	if (may_call && !by_thread)
		reap_all();
	else
		has_more = reclaim_caches_without_calls();
	/*
	 * Free memory may count against a limit that refuses the request.  If
	 * size is 0, it is for the memory of a source, which this cannot help.
	 */
	if (size != 0)
		heap_purge(0, SIZE_MAX);
	worker_end();
	if (by_thread && has_more) {
		uint32_t seen = load_acquire(&reaps_done);

		reap_request();
		os_futex_await(&reaps_done, seen, PROGRAM_WAIT_NS);
	}
	errno = saved;
	return true;
}

size_t
update_trim(void)
{
	size_t bytes = 0;

	os_purge_resume();
	os_purge_force(true);
	/* Upkeep in another thread ends soon; if not, do without. */
	if (worker_begin() ||
	    (worker_await(PROGRAM_WAIT_NS) && worker_begin())) {
		reap_all();
		bytes = reclaim_slab_pages(WALK_ALL, SIZE_MAX);
		worker_end();
	}
	bytes += heap_purge(0, SIZE_MAX);
	os_purge_force(false);
	return bytes;
}

/*
 * Sets the next update so that upkeep takes at most a tenth of the time, even
 * if an update is slow.
 */
static void
update_put_off(uint64_t began)
{
	uint64_t end = os_now_ns();

	store_relaxed(
	    &due_ns, end + size_max(10 * (end - began), update_interval_ns));
}

static void
update_in_caller(uint64_t now)
{
	if (!worker_begin())
		return;
	update_memory(/* may_call */ false, RELEASE_LIMIT);
	/* A child that the program's madvise() forked has no turn. */
	if (worker_is_self())
		soft_limit_release(RELEASE_LIMIT);
	worker_end();
	update_put_off(now);
}

static uint32_t
tick_pushes(void)
{
	return load_relaxed(&cpu_layer.tick_pushes);
}

static void
tick_pushes_set(uint32_t n)
{
	umem_assert(n != 0);
	if (tick_pushes() != n)
		cpu_set_tick_pushes(n);
}

static void
update_due(uint64_t now)
{
	int saved = errno;

	store_relaxed(&due_ns, now + update_interval_ns);
	if (update_has_thread()) {
		update_thread_wake_if_asleep();
	} else {
		snapshot_reap();
		update_in_caller(now);
	}
	errno = saved;
}

/*
 * Releases memory if the heap exceeds the soft limit; the upkeep thread, if
 * there is one, makes the calls of the program for which that is not enough.
 */
static void
release_above_limit(void)
{
	int saved = errno;
	bool suffices;

	if (!soft_limit_is_due() || !worker_begin())
		return;
	suffices = soft_limit_release(RELEASE_LIMIT);
	worker_end();
	if (!suffices && update_has_thread())
		reap_request();
	errno = saved;
}

/*
 * Pages are dirty, or pushes are counted: the program may become idle.  Less
 * than the least target is not worth a tick.
 */
static void
poll_dirty(uint64_t now)
{
	/* The clock is coarse, and all threads share the cache line. */
	if (load_relaxed(&active_ns) != now)
		store_relaxed(&active_ns, now);
	if (heap_dirty() >= idle_target(0) && tick_pushes() > TICK_FREES &&
	    !update_has_thread())
		tick_pushes_set(TICK_FREES);
}

void
update_poll(void)
{
	uint64_t due = load_relaxed(&due_ns);
	uint64_t now = os_now_ns();
	bool is_dirty = heap_dirty() != 0;

	if (is_dirty || tick_pushes() != INT32_MAX)
		poll_dirty(now);
	/* Signed, because another thread may have stored a later total. */
	if (unlikely((intptr_t)(heap_allocated_total() -
				load_relaxed(&reclaim_at)) >= 0)) {
		reclaim_check();
		release_above_limit();
	}
	if (likely(now < due)) {
		/* The program may never call again, so wake the thread. */
		if (is_dirty && update_has_thread() && update_may_purge())
			update_thread_wake_if_asleep();
		return;
	}
	if (due == 0)
		store_relaxed(&due_ns, now + update_interval_ns);
	else if (__atomic_compare_exchange_n(&due_ns, &due, UINT64_MAX, false,
		     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		update_due(now);
}

static uint64_t idle_since_ns; /* [a] when found idle; 0: release done */

/*
 * Releases all unused memory of an idle program: the depots, most magazines,
 * and the pages that were free when it was found idle.  The program has used
 * none of it since then.  The release may take more than one call.
 */
static void
release_all(uint64_t now)
{
	int saved = errno;
	uint64_t since;

	if (!worker_begin())
		return;
	since = load_relaxed(&idle_since_ns);
	if (since == 0) {
		/* This is a free(): call no function of the program. */
		reclaim_caches_without_calls();
		since = now;
	}
	if (heap_purge(now - since, RELEASE_LIMIT) < RELEASE_LIMIT) {
		since = 0;
		tick_pushes_set(INT32_MAX);
	} else {
		tick_pushes_set(1);
	}
	store_relaxed(&idle_since_ns, since);
	worker_end();
	errno = saved;
}

/*
 * Has the program been in no slow path for the age at which memory is released,
 * or is a release under way?
 */
static bool
is_idle(uint64_t now)
{
	uint64_t last = load_relaxed(&active_ns);
	uint64_t age = reclaim_age(RECLAIM_AGE_NS, reclaim_dirty_pressure());

	/* Signed, because another thread may have stored a later time. */
	return load_relaxed(&idle_since_ns) != 0 ||
	       (int64_t)(now - last) > (int64_t)age;
}

void
update_tick(void)
{
	uint64_t now = os_now_ns();

	if (update_has_thread()) {
		tick_pushes_set(INT32_MAX);
		return;
	}
	if (is_idle(now)) {
		release_all(now);
	} else {
		tick_pushes_set(TICK_FREES);
		if (now > load_relaxed(&due_ns))
			update_due(now);
	}
}

void
update_run(unsigned work)
{
	if (work & WORK_POLL)
		update_poll();
	if (work & WORK_TICKED)
		update_tick();
}

void
update_after_fork(bool counted)
{
	worker_after_fork();
	cache_walk_after_fork_locked();
	update_thread_after_fork(counted);
	due_ns = 0;
	idle_since_ns = 0;
	snapshot_after_fork();
}

const struct cache_upkeep cache_upkeep = {
    .run = update_run,
    .enter = update_thread_enter,
    .leave = update_thread_leave,
};

public void
umem_reap(void)
{
	int saved = errno;

	if (!umem_ready())
		return;
	if (update_has_thread()) {
		reap_request();
	} else if (worker_begin()) {
		reap_all();
		worker_end();
		cache_deferral.wake();
	}
	errno = saved;
}

public __typeof__(umem_reap) vmem_reap __attribute__((alias("umem_reap")));

public void
umem_cache_reap_now(umem_cache_t *cache)
{
	int saved = errno;

	call_reclaim(cache);
	cache_reap(cache);
	cache_deferral.wake();
	errno = saved;
}
