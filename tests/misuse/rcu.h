/*
 * rcu.h - deferred frees for the programs that misuse them
 *
 * wait_for_readers() returns when everything that was deferred is free.
 * Between hold_readers() and release_readers() no grace period ends, because a
 * thread stays in its read-side section.
 */
#ifndef TESTS_MISUSE_RCU_H
#define TESTS_MISUSE_RCU_H

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

/* Looks for the flavour that was included. */
#include <umem_rcu.h>

#include "tests/misuse/object.h"

static pthread_barrier_t turn;
static pthread_t holder;

static void *
hold(void *unused)
{
	rcu_register_thread();
	rcu_read_lock();
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	rcu_read_unlock();
	rcu_unregister_thread();
	return unused;
}

static inline void
hold_readers(void)
{
	pthread_barrier_init(&turn, NULL, 2);
	holder = thread_start(hold, NULL);
	pthread_barrier_wait(&turn);
}

static inline void
wait_for_readers(void)
{
	check(umem_rcu_barrier() == 0);
}

static inline void
release_readers(void)
{
	pthread_barrier_wait(&turn);
	thread_end(holder);
	wait_for_readers();
}

static inline void
defer_object(void *p)
{
	check(umem_cache_free_rcu(cache, keep(p)) == 0);
}

static inline void
defer_block(void *p)
{
	check(free_rcu(keep(p)) == 0);
}

#endif
