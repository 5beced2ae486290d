/*
 * umem_rcu.h - frees that wait for a grace period of liburcu
 *
 * An updater that has removed an object from a structure which readers
 * traverse under rcu_read_lock() must not free it before all readers that may
 * have found it are done.  The functions below take such an object at once and
 * free it after a grace period.  The object needs no struct rcu_head, and the
 * library waits for one grace period per batch of objects, not per object.
 *
 * Flavours
 *	Include the header of a liburcu flavour with URCU_API_MAP defined, then
 *	this one:
 *
 *		#define URCU_API_MAP
 *		#include <urcu/urcu-memb.h>
 *		#include <umem_rcu.h>
 *
 *	umem_cache_free_rcu() and the other names without "_flavor" then belong
 *	to that flavour.  A name with "_flavor" takes the flavour as its last
 *	argument, for example &urcu_qsbr_flavor, and works without URCU_API_MAP.
 *	A program may use several flavours, each for readers of its own.  The
 *	header of a flavour declares the structure of that flavour only if it is
 *	the first such header of the file; the file declares others itself:
 *
 *		extern const struct rcu_flavor_struct urcu_qsbr_flavor;
 *
 *	The library knows a flavour by the address of its structure, which must
 *	stay valid until the process ends; a copy at another address counts as
 *	another flavour.
 *
 * Link with -lumem_rcu -lumem and the flavour's library, for example
 * -lurcu-memb; pkg-config --libs umem-rcu prints the first two.  The same
 * program may run with libumem_malloc.so.1 preloaded.
 *
 * Limits
 *	Objects that wait for a grace period use memory.  UMEM_OPTIONS=
 *	rcu_budget=SIZE says how much may wait in each flavour (default 64 MiB).
 *	A call beyond the budget waits for a grace period if the calling thread
 *	is in no read-side critical section of any flavour that was used with
 *	these functions, and otherwise, at twice the budget, fails with EAGAIN.
 *	So readers that stall delay updaters; they never make memory grow
 *	without bound.  UMEM_OPTIONS=rcu_delay=MILLISECONDS says how long an
 *	object may lie on its CPU until it begins to wait for a grace period
 *	(default 10).
 *
 * Because a call may wait for a grace period, a caller outside of a read-side
 * critical section must not hold a lock that readers take inside theirs.  The
 * same is true of synchronize_rcu().
 *
 * Freeing an object of an import cache with a max_idle, of a cache with a vmem
 * source, or, with UMEM_DEBUG=guards, of a cache with a destructor calls the
 * program.  Such calls are made by the library's thread and by threads that
 * call umem_rcu_barrier() or umem_cache_destroy(), which must not hold a lock
 * that the functions take.  A thread that defers a free may hold such a lock,
 * unless the library can start no thread, as in a process that has confined
 * itself.
 *
 * Any thread may call these functions, also inside a read-side critical section
 * unless the function says otherwise; not for signal handlers.  A thread need
 * not be registered with liburcu unless the flavour wants it for the caller's
 * own read-side critical sections.
 *
 * UMEM_DEBUG and UMEM_OPTIONS=hardened report a second free of an object that
 * waits.  With UMEM_DEBUG=guards a change of such an object is reported, too,
 * when the grace period is over.  If readers may write to it, for example to a
 * lock inside it, the word rcu_writes turns that check off; see umem_debug(3).
 *
 * fork(): objects that wait at that moment wait in the parent and in the child,
 * and either frees its own.  Without exec(), liburcu limits the calls that the
 * child may make: see its README, "Interaction with fork()".  In the child, a
 * cache with UMC_TYPESAFE_BY_RCU releases no slab before the child calls
 * umem_cache_rcu() for it or defers a free, with each flavour that the cache
 * was told of.  With bp, the program calls urcu_bp_before_fork(),
 * urcu_bp_after_fork_parent() and urcu_bp_after_fork_child() around each such
 * fork().
 */
#ifndef UMEM_RCU_H
#define UMEM_RCU_H

#include <stddef.h>
#include <umem.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rcu_flavor_struct;

/*
 * umem_cache_free_rcu_flavor, umem_cache_free_rcu - free an object of a cache
 * after a grace period
 *
 * cache	the one that the object came from
 * object	from umem_cache_alloc(), no longer reachable for new readers;
 *		NULL is allowed and does nothing
 * flavor	of the readers; umem_cache_free_rcu() uses that of URCU_API_MAP
 *
 * The object returns to the cache in its constructed state.  The caller must
 * not use it after the call, except inside the read-side critical section that
 * it is in.  Returns 0, or -1 with errno set; the object then still belongs to
 * the caller:
 *	EAGAIN	the caller is in a read-side critical section of any flavour
 *		that was used with these functions (or, with qsbr, is online),
 *		and twice the budget waits for a grace period, or there is no
 *		memory for the library itself.  The caller may try again
 *		outside of the section.  Also outside: there is no such memory,
 *		and to free the object may call a function of the program
 *	ENOTSUP	this process is a child of a fork() that found a grace period in
 *		progress which did not end: liburcu cannot wait for readers here
 *
 * Source: Linux's kfree_rcu() and its use of sheaves.
 */
#ifndef UMEM_HPP /* which declares it */
int umem_cache_free_rcu_flavor(
    umem_cache_t *cache, void *object, const struct rcu_flavor_struct *flavor);
#endif

/*
 * umem_free_rcu_flavor, umem_free_rcu - free a block of umem_alloc() after a
 * grace period
 *
 * buf		from umem_alloc() or umem_zalloc(); NULL does nothing
 * size		exactly as it was asked for, in bytes
 * flavor	as for umem_cache_free_rcu_flavor()
 *
 * Result and errors are those of umem_cache_free_rcu_flavor().  Source: our
 * own, after umem_free().
 */
int umem_free_rcu_flavor(
    void *buf, size_t size, const struct rcu_flavor_struct *flavor);

/*
 * free_rcu_flavor, free_rcu - free a block of malloc() after a grace period
 *
 * p		from malloc() or a relative, whichever library provides them in
 *		this process; NULL does nothing
 * flavor	as for umem_cache_free_rcu_flavor()
 *
 * Result and errors are those of umem_cache_free_rcu_flavor().  Where malloc()
 * is not this library's, a block counts malloc_usable_size() bytes.
 * Source: Linux's kvfree_rcu().
 */
int free_rcu_flavor(void *p, const struct rcu_flavor_struct *flavor);

/*
 * umem_rcu_barrier_flavor, umem_rcu_barrier - wait until objects are free
 *
 * flavor	of the frees to wait for
 *
 * Returns when every object that any thread gave to a function above, before
 * this call, has been freed.  With qsbr an online caller is taken offline
 * meanwhile, so the call is a quiescent state.  Returns 0, or -1 with errno
 * set:
 *	EDEADLK	the caller is in a read-side critical section of the flavour, or
 *		in a function of the program that the library calls while it
 *		frees objects after a grace period of any flavour
 *	EAGAIN	the kernel refused membarrier(2), so some objects still wait; in
 *		a process that has confined itself it always does
 *	ENOTSUP	as for umem_cache_free_rcu_flavor()
 *
 * Source: liburcu's rcu_barrier().
 */
int umem_rcu_barrier_flavor(const struct rcu_flavor_struct *flavor);

/*
 * umem_cache_rcu_flavor, umem_cache_rcu - tell a cache which readers it has
 *
 * cache	from umem_cache_create()
 * flavor	of readers that may hold pointers to objects of the cache
 *
 * A cache with UMC_TYPESAFE_BY_RCU releases a slab only after a grace period of
 * every flavour that it was told of, and before the first such call releases
 * none.  For any cache, the library makes its structures for the flavour, as
 * the first free with the flavour does otherwise.  Returns 0, or -1 with errno
 * set:
 *	ENOMEM	there is no memory for the library itself
 *	ENOTSUP	as for umem_cache_free_rcu_flavor()
 *
 * Source: our own.
 */
int umem_cache_rcu_flavor(
    umem_cache_t *cache, const struct rcu_flavor_struct *flavor);

/* Defined by the header of a flavour under URCU_API_MAP. */
#ifdef rcu_flavor

static inline int
umem_cache_free_rcu(umem_cache_t *umem_cache, void *umem_object)
{
	return umem_cache_free_rcu_flavor(umem_cache, umem_object, &rcu_flavor);
}

static inline int
umem_free_rcu(void *umem_buf, size_t umem_size)
{
	return umem_free_rcu_flavor(umem_buf, umem_size, &rcu_flavor);
}

static inline int
free_rcu(void *umem_p)
{
	return free_rcu_flavor(umem_p, &rcu_flavor);
}

static inline int
umem_rcu_barrier(void)
{
	return umem_rcu_barrier_flavor(&rcu_flavor);
}

static inline int
umem_cache_rcu(umem_cache_t *umem_cache)
{
	return umem_cache_rcu_flavor(umem_cache, &rcu_flavor);
}

#endif

#ifdef __cplusplus
}
#endif

#endif
