/*
 * lock.c - mutexes on a futex, with ranks
 *
 * The three states are those of Drepper's "Futexes Are Tricky", mutex 2.  A
 * thread sets the state to 2 before it sleeps.  A holder that finds 1 at the
 * release therefore needs no system call.  A holder that finds 2 wakes one
 * waiter.  The woken thread takes the lock by setting the state to 2 again,
 * because it cannot know whether other threads wait.
 */
#include <assert.h>

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

#ifdef UMEM_DEBUG
/* A thread that holds one of these takes no further lock but LOCK_REPORT. */
#define LEAF_RANKS (1u << LOCK_META | 1u << LOCK_SAMPLE | 1u << LOCK_LOG_NEXT)

/* If bit r is set, this thread holds a lock of rank r: held_lock[r]. */
static __thread uint32_t held;
static __thread const struct lock *held_lock[LOCK_NRANKS];

static_assert(LOCK_NRANKS <= 32, "each rank has a bit of held");

static void
rank_enter(const struct lock *lock)
{
	uint32_t bit = 1u << lock->rank;

	umem_assert(lock->rank < LOCK_NRANKS);
	if (held >= bit ||
	    ((held & LEAF_RANKS) != 0 && lock->rank != LOCK_REPORT))
		panic("lock order: rank %u taken while holding %x", lock->rank,
		    held);
	held |= bit;
	held_lock[lock->rank] = lock;
}

static void
rank_leave(const struct lock *lock)
{
	umem_assert(held_lock[lock->rank] == lock);
	held &= ~(1u << lock->rank);
	held_lock[lock->rank] = NULL;
}
#else
static inline void
rank_enter(const struct lock *lock)
{
	(void)lock;
}

static inline void
rank_leave(const struct lock *lock)
{
	(void)lock;
}
#endif

static inline bool
state_try(struct lock *lock, uint32_t from, uint32_t to)
{
	/* Acquire; pairs with the release in state_release(). */
	return __atomic_compare_exchange_n(
	    &lock->state, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static noinline void
state_wait(struct lock *lock)
{
	for (int i = 0; i < SPIN_TRIES; i++) {
		if (__atomic_load_n(&lock->state, __ATOMIC_RELAXED) == 0 &&
		    state_try(lock, 0, 1))
			return;
		cpu_relax();
	}
	while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_ACQUIRE) != 0)
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

/* Thread pointer between lock_fork_begin() and lock_fork_end(), or 0. */
static uintptr_t forking; /* [atomic] */

static inline bool
am_forking(void)
{
	uintptr_t who = __atomic_load_n(&forking, __ATOMIC_RELAXED);

	return unlikely(who != 0) &&
	       who == (uintptr_t)__builtin_thread_pointer();
}

void
lock_fork_begin(void)
{
	__atomic_store_n(
	    &forking, (uintptr_t)__builtin_thread_pointer(), __ATOMIC_RELAXED);
}

void
lock_fork_end(void)
{
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
}

bool
lock_is_forking(void)
{
	return am_forking();
}

void
lock_take(struct lock *lock)
{
	if (am_forking())
		return;
	rank_enter(lock);
	state_take(lock);
}

bool
lock_try(struct lock *lock)
{
	if (am_forking())
		return true;
	if (!state_try(lock, 0, 1))
		return false;
	rank_enter(lock);
	return true;
}

void
lock_release(struct lock *lock)
{
	if (am_forking())
		return;
	rank_leave(lock);
	state_release(lock);
}

#ifdef UMEM_DEBUG
bool
lock_is_held(const struct lock *lock)
{
	return am_forking() || held_lock[lock->rank] == lock;
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
