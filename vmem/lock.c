/*
 * lock.c - mutexes on a futex, with ranks
 *
 * The three states are those of Drepper's "Futexes Are Tricky", mutex 2.  A
 * thread sets the state to 2 before it sleeps.  A holder that finds 1 at the
 * release therefore needs no system call.  A holder that finds 2 wakes one
 * waiter.  The woken thread takes the lock by setting the state to 2 again,
 * because it cannot know whether other threads wait.
 *
 * fork() and the locks of caches
 *	A program may have thousands of caches, with a depot lock for every 8
 *	CPUs in each.  If fork() took these locks, the kernel would copy their
 *	pages twice: the parent writes to them when it releases the locks, and
 *	so does the child.  Instead fork() shuts their rank and reads:
 *
 *		lock_take()			fork()
 *		state: compare 0, swap 1	shut_ranks := rank
 *		load shut_ranks				load state until it is 0
 *
 *	All four accesses are sequentially consistent.  Therefore either the
 *	thread reads that the rank is shut and returns the lock without having
 *	read or changed what it guards, or fork() reads the lock as held and
 *	waits for its release.  A thread with a lock of a shut rank can take all
 *	locks below, because fork() shuts a rank only when it has seen the locks
 *	of all ranks above free.  So the holder does not wait for fork().
 *
 *	fork() may copy a thread between its two steps, with state at 1 or 2.
 *	The child, in which that thread does not exist, frees the lock.
 */
#include <assert.h>
#include <limits.h>

#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

/*
 * Attempts before the thread sleeps.  Threads hold these locks for tens of
 * nanoseconds to a few microseconds; a thread that must wait longer sleeps in
 * the kernel.
 */
#define SPIN_TRIES 40

/*
 * fork() reads a lock this often before it sleeps, and sleeps this long.  No
 * thread wakes it: if it waited for the lock's word, the release of a holder
 * could wake fork() instead of a thread that waits for the lock, and that
 * thread would sleep for ever.
 */
#define AWAIT_TRIES 100
#define AWAIT_NS    50000

static_assert(LOCK_NRANKS <= 32, "each rank has a bit of held and shut_ranks");

#ifdef UMEM_DEBUG
/* A thread that holds one of these takes no further lock but LOCK_REPORT. */
#define LEAF_RANKS (1u << LOCK_META | 1u << LOCK_SAMPLE | 1u << LOCK_FREED)

/* If bit r is set, this thread holds a lock of rank r: held_lock[r]. */
static __thread uint32_t held;
static __thread const struct lock *held_lock[LOCK_NRANKS];

static void
rank_note(const struct lock *lock)
{
	held |= 1u << lock->rank;
	held_lock[lock->rank] = lock;
}

static void
rank_enter(const struct lock *lock)
{
	umem_assert(lock->rank < LOCK_NRANKS);
	if (held >= 1u << lock->rank ||
	    ((held & LEAF_RANKS) != 0 && lock->rank != LOCK_REPORT))
		panic("lock order: rank %u taken while holding %x", lock->rank,
		    held);
	rank_note(lock);
}

/* As rank_enter() in any order; false: there is no place to note the lock. */
static bool
rank_enter_unordered(const struct lock *lock)
{
	if (held_lock[lock->rank] != NULL)
		return false;
	rank_note(lock);
	return true;
}

static void
rank_leave(const struct lock *lock)
{
	umem_assert(held_lock[lock->rank] == lock);
	held &= ~(1u << lock->rank);
	held_lock[lock->rank] = NULL;
}
#else
#define rank_enter(lock)           ((void)(lock))
#define rank_enter_unordered(lock) true
#define rank_leave(lock)           ((void)(lock))
#endif

static inline bool
state_try(struct lock *lock, uint32_t from, uint32_t to)
{
	/* Acquire, as part of seq_cst; pairs with state_release(). */
	return __atomic_compare_exchange_n(
	    &lock->state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static noinline void
state_wait(struct lock *lock)
{
	for (int i = 0; i < SPIN_TRIES; i++) {
		if (load_relaxed(&lock->state) == 0 && state_try(lock, 0, 1))
			return;
		cpu_relax();
	}
	while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_SEQ_CST) != 0)
		os_futex_wait(&lock->state, 2, 0);
}

static inline void
state_take(struct lock *lock)
{
	if (unlikely(!state_try(lock, 0, 1)))
		state_wait(lock);
}

static inline void
state_release(struct lock *lock)
{
	if (unlikely(
		__atomic_exchange_n(&lock->state, 0, __ATOMIC_RELEASE) == 2))
		os_futex_wake(&lock->state, 1);
}

static uint32_t shut_ranks; /* [atomic] 1 << rank; futex word */

static inline bool
is_among(uint32_t ranks, const struct lock *lock)
{
	return (ranks >> lock->rank & 1) != 0;
}

static inline bool
is_shut(const struct lock *lock)
{
	/* Acquire, as part of seq_cst; pairs with lock_open_after_fork(). */
	uint32_t ranks = __atomic_load_n(&shut_ranks, __ATOMIC_SEQ_CST);

	return unlikely(ranks != 0) && is_among(ranks, lock);
}

/* The calling thread has just taken the lock: return it, and take it later. */
static cold_path void
shut_wait(struct lock *lock)
{
	do {
		uint32_t ranks;

		state_release(lock);
		while ((ranks = load_relaxed(&shut_ranks)) != 0 &&
		       is_among(ranks, lock))
			os_futex_wait(&shut_ranks, ranks, 0);
		state_take(lock);
	} while (is_shut(lock));
}

void
lock_shut_for_fork(enum lock_rank rank)
{
	__atomic_or_fetch(&shut_ranks, 1u << rank, __ATOMIC_SEQ_CST);
}

void
lock_await_for_fork(struct lock *lock)
{
	uint32_t own = 0;

	umem_assert(is_among(shut_ranks, lock));
	/* Acquire, as part of seq_cst; pairs with state_release(). */
	for (unsigned i = 0;
	     __atomic_load_n(&lock->state, __ATOMIC_SEQ_CST) != 0; i++) {
		cpu_relax();
		if (i > AWAIT_TRIES)
			os_futex_wait(&own, own, AWAIT_NS);
	}
}

void
lock_free_in_child(struct lock *lock)
{
	if (lock->state != 0)
		lock->state = 0;
}

void
lock_open_after_fork(void)
{
	/* Release: a thread that reads 0 also reads what fork() has changed. */
	store_release(&shut_ranks, 0);
	os_futex_wake(&shut_ranks, INT_MAX);
}

/* Thread pointer between lock_fork_begin() and lock_fork_end(), or 0. */
static uintptr_t forking; /* [atomic] */

inline bool
lock_is_forking(void)
{
	uintptr_t who = load_relaxed(&forking);

	return unlikely(who != 0) && who == thread_self();
}

void
lock_fork_begin(void)
{
	store_relaxed(&forking, thread_self());
}

void
lock_fork_end(void)
{
	store_relaxed(&forking, 0);
}

void
lock_take(struct lock *lock)
{
	if (lock_is_forking())
		return;
	rank_enter(lock);
	state_take(lock);
	if (is_shut(lock))
		shut_wait(lock);
}

/* Takes the lock if it is free and fork() has not shut its rank. */
static inline bool
lock_try_state(struct lock *lock)
{
	if (!state_try(lock, 0, 1))
		return false;
	if (!is_shut(lock))
		return true;
	state_release(lock);
	return false;
}

bool
lock_try(struct lock *lock)
{
	if (lock_is_forking())
		return true;
	if (!lock_try_state(lock))
		return false;
	rank_enter(lock);
	return true;
}

bool
lock_try_unordered(struct lock *lock)
{
	if (lock_is_forking())
		return true;
	if (!lock_try_state(lock))
		return false;
	if (rank_enter_unordered(lock))
		return true;
	state_release(lock);
	return false;
}

void
lock_release(struct lock *lock)
{
	if (lock_is_forking())
		return;
	rank_leave(lock);
	state_release(lock);
}

#ifdef UMEM_DEBUG
bool
lock_is_held(const struct lock *lock)
{
	return lock_is_forking() || held_lock[lock->rank] == lock;
}

bool
lock_is_any_held(void)
{
	return held != 0;
}
#endif

void
lock_take_for_fork(struct lock *lock)
{
	state_take(lock);
}

void
lock_release_for_fork(struct lock *lock)
{
	state_release(lock);
}
