/*
 * worker.c - the worker: the one thread that does maintenance on the caches
 *
 * One thread at a time does maintenance on the caches, the worker.  A word has
 * its thread pointer.  The word is not a lock: maintenance calls the program's
 * destructors and reclaim callbacks, which may do anything.  They may destroy a
 * cache or ask for more maintenance (worker_begin() then returns false), and
 * fork() must not wait for them.
 *
 * Two words change in worker_end(): the thread pointer, and a count for threads
 * that wait (worker_await()).  A waiting thread reads the count first, so it
 * does not sleep past the end of a turn.
 *
 * The child of fork() starts without a worker.  If the worker itself forks in a
 * callback, its turn ends in the child with the fork, because the child may
 * never return from the callback: its walk ends (cache_walk.c), and
 * worker_end() does nothing there.
 */
#include "umem/cache/worker.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

static uintptr_t worker;      /* [a] worker's thread pointer, or 0 */
static uint32_t worker_nends; /* [a] counts ends of turns, to wait on */

bool
worker_begin(void)
{
	uintptr_t nobody = 0;

	/* Acquire; pairs with the release in worker_end(). */
	return __atomic_compare_exchange_n(&worker, &nobody, thread_self(),
	    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void
worker_end(void)
{
	/* The turn of a worker that has forked in a callback ended then. */
	if (!worker_is_self())
		return;
	store_release(&worker, 0);
	__atomic_add_fetch(&worker_nends, 1, __ATOMIC_RELEASE);
	os_futex_wake(&worker_nends, INT32_MAX);
}

/*
 * Relaxed: the word equals the caller's pointer only if the caller stored it.
 */
bool
worker_is_self(void)
{
	return load_relaxed(&worker) == thread_self();
}

bool
worker_await(uint64_t most_ns)
{
	uint32_t seen = load_acquire(&worker_nends);
	uintptr_t present = load_relaxed(&worker);

	if (present == 0 || present == thread_self())
		return present == 0;
	return os_futex_await(&worker_nends, seen, most_ns);
}

void
worker_after_fork(void)
{
	worker = 0;
	/* The handler of a signal may have forked in worker_await(). */
	worker_nends++;
}
