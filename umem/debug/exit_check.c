/*
 * exit_check.c - overruns of blocks that are never freed
 *
 * A free checks the bytes behind its block.  With UMEM_OPTIONS=hardened exit()
 * therefore checks the blocks that the program still holds, after the handlers
 * that the program registered: the slack behind the requested size, the tag
 * and the padding, in caches of size classes.  It writes nothing there, so that
 * a child of fork() copies no page.  Then it reports the damaged blocks, and
 * aborts like any other report.  _exit() and signals that end the process check
 * nothing.
 *
 * Other threads may run meanwhile.  A block is reported only if its bytes have
 * changed although nobody was entitled to change them:
 *
 *	The check holds the lock of the cache's slabs.  Therefore no slab of
 *	the list is destroyed.
 *
 *	allocation	A chunk in hand becomes ALLOCATED after its slack and
 *			its tag are written, by a release that pairs with the
 *			acquires of the check.  bufctl->number is a sequence
 *			lock: odd while the size, the slack and the tag are
 *			written, and different afterwards.  It has 16 bits, so
 *			it comes again after 2^15 changes.
 *	free		The state leaves ALLOCATED before the free writes to
 *			the chunk.  A release fence separates the two writes
 *			(change_state(), hardened_free()).  So if the check has
 *			read a byte of the free, its second load of the state,
 *			after an acquire fence, returns a later state: not
 *			ALLOCATED, or ALLOCATED by a later allocation, and then
 *			its second load of the number returns another one.
 *	deferred free	WAITING is as FREE; debug_defer_undo() goes back to
 *			ALLOCATED.  Neither changes bytes behind the block, nor
 *			the number.
 *	resize		debug_resize() changes the number as an allocation
 *			does.  The check reports no block with an odd number,
 *			nor one with a number that has changed.  The program
 *			writes to the bytes that it has gained only after the
 *			resize.
 *
 * The bytes of an intact block are read once and its record once; only a
 * difference makes the check look again.
 *
 * In a child of fork() the other threads do not exist, and the records are as
 * they left them.  An allocation or a free that was interrupted has no state
 * ALLOCATED, and the number of an interrupted resize stays odd.  The lock is
 * free, because fork.c waits for it.
 *
 * exit() may come from a signal handler, which has interrupted this very
 * thread while it held the lock, or another one.  So the check tries the lock
 * LOCK_TRIES times, in spite of the lock order, and passes over the cache if it
 * does not get it.
 *
 * A damaged block stays where it is after the lock is released: its free is an
 * error, too, after which the block is not allocated again.  So the reports,
 * which may take long, are made without the lock.
 *
 * Large blocks are not checked.  They end at a guard page, and only a write to
 * the rest of their last page, or to the tag there, would be found.
 */
#include "umem/debug/debug_inner.h"
#include "umem/debug/error.h"
#include "umem/debug/exit_check.h"
#include "umem/base/page_map.h"
#include "vmem/os.h"

/* Attempts to get the lock of a cache, POLL_NS apart. */
#define LOCK_TRIES 20

/* Registers a function for exit(); libc has it under this name only. */
extern int __cxa_atexit(void (*function)(void *), void *arg, void *dso);

/* A buffer with a changed end. */
struct damage {
	struct buffer buffer;
	struct error_info info;
};

struct check {
	struct umem_cache *cache;
	uint64_t deadline; /* ns of os_now_ns() */
	unsigned n;
	struct damage damage[EXIT_REPORTS];
};

/* Checks the chunks of a slab that are taken; the lock is held. */
static bool
check_slab_locked(struct slab *slab, void *arg)
{
	struct check *check = arg;
	const struct slab_store *store = slab->store;

	lock_assert_held(&store->lock);
	umem_assert(store == &check->cache->slabs && slab->records != NULL);
	for (unsigned i = 0; i < slab->high && check->n < EXIT_REPORTS; i++) {
		if ((slab->bits[i / 64] >> (i % 64) & 1) != 0)
			continue;
		struct buffer b = debug_buffer_at(check->cache, slab, i);

		if (!debug_live_is_intact(&b, &check->damage[check->n].info))
			check->damage[check->n++].buffer = b;
	}
	return check->n < EXIT_REPORTS && os_now_ns() < check->deadline;
}

static bool
lock_try_long(struct lock *lock)
{
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		uint32_t never = 0;

		if (lock_try_unordered(lock))
			return true;
		os_futex_wait(&never, 0, POLL_NS);
	}
	return false;
}

/* Returns whether there is time for another cache. */
static bool
check_cache(struct check *check)
{
	struct slab_store *store = &check->cache->slabs;
	bool goes_on = true;

	if (!check->cache->checks_slack || !lock_try_long(&store->lock))
		return os_now_ns() < check->deadline;
	goes_on = slab_each_used_locked(store, check_slab_locked, check);
	lock_release(&store->lock);
	return goes_on;
}

unsigned
exit_check(uint64_t limit_ns)
{
	struct check check = {.deadline = os_now_ns() + limit_ns};

	/* Large blocks first, because these are checked faster by the byte. */
	for (unsigned class = SIZE_CLASSES; class > 0; class --) {
		check.cache = class_cache_if_made(class);
		if (check.cache != NULL && !check_cache(&check))
			break;
	}
	for (const struct damage *d = check.damage; d < check.damage + check.n;
	     d++)
		debug_report((enum error_code)d->info.code, d->buffer.cache,
		    &d->buffer, d->buffer.p, d->info);
	return check.n;
}

static void
exit_check_run(void *arg)
{
	(void)arg;
	/* A handler of SIGABRT may call exit() after a report. */
	if (!debug.noabort && umem_abort_info.time != 0)
		return;
	if (exit_check(EXIT_CHECK_NS) != 0 && !debug.noabort)
		os_abort();
}

void
exit_check_start(void)
{
	if (debug.on && debug.hardened)
		__cxa_atexit(exit_check_run, NULL, NULL);
}
