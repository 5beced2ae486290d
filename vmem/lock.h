/*
 * lock.h - mutexes on a futex, with ranks
 *
 * A waiter sleeps; nothing spins for longer than a few tries, because with
 * more threads than CPUs a spinning waiter burns the time of the holder.  The
 * enum below is the lock order: a thread takes locks from top to bottom only.
 * Debug builds abort on a violation.
 */
#ifndef VMEM_LOCK_H
#define VMEM_LOCK_H

#include "vmem/base.h"

enum lock_rank {
	LOCK_INIT,       /* bring-up */
	LOCK_DEFER,      /* lists of deferred frees: domains, layers */
	LOCK_CACHE_LIST, /* list of all caches */
	LOCK_ARENA_LIST,
	LOCK_QUANTUM, /* between the quantum caches of an arena and slabs */
	LOCK_REGION,  /* blocks of CPUs */
	LOCK_CPU,     /* one CPU's magazines of one cache */
	LOCK_DEPOT,
	LOCK_SLAB,     /* slabs of one cache */
	LOCK_ARENA,    /* segments of one arena */
	LOCK_HEAP,     /* windows and page states */
	LOCK_META,     /* metadata store: leaf */
	LOCK_SAMPLE,   /* records of samples, and places for them: leaf */
	LOCK_LOG,      /* a log of a CPU; a ring of freed buffers */
	LOCK_LOG_NEXT, /* the next chunk of a log: leaf */
	LOCK_REPORT,   /* the report of an error: leaf */
	LOCK_NRANKS
};

struct lock {
	uint32_t state; /* 0 free, 1 held, 2 held and awaited */
	uint32_t rank;
};

#define LOCK_INITIALIZER(r) {.state = 0, .rank = (r)}

static inline void
lock_init(struct lock *lock, enum lock_rank rank)
{
	lock->state = 0;
	lock->rank = rank;
}

void lock_take(struct lock *lock);
bool lock_try(struct lock *lock);
void lock_release(struct lock *lock);

/* Aborts in debug builds unless the lock is held (by anyone). */
void lock_assert_held(const struct lock *lock);

/* lock_take() for the atfork handler, which holds many locks of one rank. */
void lock_take_for_fork(struct lock *lock);
void lock_release_for_fork(struct lock *lock);

/*
 * Between these two the calling thread holds every lock, and its lock_take()
 * and lock_release() do nothing: all is at rest, so it may go in anywhere.
 * Its forked child counts as the same thread.
 */
void lock_fork_begin(void);
void lock_fork_end(void);

/* Is the calling thread between the two? */
bool lock_is_forking(void);

#endif
