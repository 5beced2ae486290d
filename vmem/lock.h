/*
 * lock.h - mutexes on a futex, with ranks
 *
 * A waiting thread makes a few attempts and then sleeps.  Because there may be
 * more threads than CPUs, a thread that spins for longer would take CPU time
 * from the holder of the lock.
 *
 * The enum below is the lock order: a thread takes locks only from top to
 * bottom.  A thread that holds a leaf lock takes no further lock but
 * LOCK_REPORT, because any code may find an error.  Debug builds abort on a
 * violation.
 */
#ifndef VMEM_LOCK_H
#define VMEM_LOCK_H

#include "vmem/base.h"
#include "vmem/panic.h"

enum lock_rank {
	LOCK_INIT,       /* start of the library */
	LOCK_DEFER,      /* lists of deferred frees: domains, layers */
	LOCK_CACHE_LIST, /* list of all caches */
	LOCK_LIMIT,      /* requests that wait; reserves of caches */
	LOCK_ARENA_LIST, /* list of all arenas */
	LOCK_IMPORT,     /* the gate of one import cache */
	LOCK_REGION,     /* memory for per-CPU headers */
	LOCK_DEPOT,      /* one shard of the depot of one cache */
	LOCK_SLAB,       /* slabs of one cache */
	LOCK_ARENA,      /* segments of one arena */
	LOCK_HEAP,       /* committed memory of the heap; the page map */
	LOCK_META,       /* metadata allocator: leaf */
	LOCK_SAMPLE,     /* sample records, stacks and units: leaf */
	LOCK_FREED,      /* a ring of freed buffers: leaf */
	LOCK_REPORT,     /* the report of an error: leaf */
	LOCK_NRANKS
};

struct lock {
	uint32_t state; /* 0 free, 1 held, 2 held and threads may wait */
	uint32_t rank;  /* enum lock_rank */
};

#define LOCK_INITIALIZER(r) {.state = 0, .rank = (r)}

static inline void
lock_init(struct lock *lock, enum lock_rank rank)
{
	lock->state = 0;
	lock->rank = rank;
}

void lock_take(struct lock *lock);
/* Take the lock without waiting; false if another thread holds it. */
bool lock_try(struct lock *lock);

/*
 * As lock_try(), for a caller that may be in a signal handler, and so in the
 * midst of a function with locks of any rank.  A thread that does not wait may
 * take locks in any order.  In debug builds it fails while the thread has
 * another lock of this rank.
 */
bool lock_try_unordered(struct lock *lock);

void lock_release(struct lock *lock);

/*
 * Does the calling thread hold the lock?  Between lock_fork_begin() and
 * lock_fork_end() the forking thread holds every lock.  Exists in debug builds
 * only.
 */
bool lock_is_held(const struct lock *lock);

/*
 * Abort a debug build unless the calling thread holds the lock.  A function
 * that needs a lock begins with it.
 */
#define lock_assert_held(lock) umem_assert(lock_is_held(lock))

/* Does the calling thread hold any lock?  Exists in debug builds only. */
bool lock_is_any_held(void);

/*
 * Abort a debug build if the calling thread holds a lock.  A function that
 * calls functions of the program begins with it.
 */
#define lock_assert_none_held() umem_assert(!lock_is_any_held())

/*
 * Take and release a lock in the atfork handlers, without the check of ranks.
 * The handlers hold many locks of one rank.
 */
void lock_take_for_fork(struct lock *lock);
void lock_release_for_fork(struct lock *lock);

/*
 * The next four are for ranks with many locks.  fork() takes none of these,
 * because each store would copy a page in the parent and in the child; see
 * lock.c.  After this call no thread gets a lock of the rank that it does not
 * hold already.
 */
void lock_shut_for_fork(enum lock_rank rank);

/* Wait until a lock of a shut rank is free. */
void lock_await_for_fork(struct lock *lock);

/*
 * In the child: free a lock of a shut rank that another thread had taken and
 * was about to return.
 */
void lock_free_in_child(struct lock *lock);

/* Threads can take the locks of all ranks again. */
void lock_open_after_fork(void);

/*
 * lock_fork_begin() is called by the atfork handler after it has taken every
 * lock, or shut its rank.  Until lock_fork_end(), lock_take() and
 * lock_release() of the calling thread do nothing, and lock_try() succeeds.
 * Because no other thread is inside a locked section, all locked data is
 * consistent and the calling thread may use it.  The forked child has the
 * thread pointer of its parent, so that it counts as the calling thread.
 */
void lock_fork_begin(void);
void lock_fork_end(void);

/* Is the calling thread between lock_fork_begin() and lock_fork_end()? */
bool lock_is_forking(void);

#endif
