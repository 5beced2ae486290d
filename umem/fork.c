/*
 * fork.c - takes every lock in rank order, releases them, repairs the child
 *
 * While fork() copies memory, the forking thread holds every lock or has shut
 * its rank (lock.c), and no other thread owns a per-CPU header, so the child
 * finds all data that they protect in a consistent state.  The child loses
 * memory that another thread is moving at that moment, such as a magazine that
 * is being filled.  The commit of another thread's restartable sequence either
 * has happened or has not (see cpu_fork.c).
 *
 * Cost: fork() writes to no lock of a cache and to no per-CPU header.  It reads
 * one lock for each depot and for the slabs of each cache, and a cache line for
 * each header of each CPU in use, in the parent and again in the child.
 *
 * fork() does not wait for the worker: it may be in callbacks of the program,
 * and these may wait for a lock that the forking thread holds.
 *
 * A process with one thread takes no lock, and repairs nothing in the child.
 * There is no other thread to wait for, and fork() may be called in a signal
 * handler that has interrupted this very thread while it held a lock.  The
 * child is a copy of that thread and continues with the lock and the data of
 * its interrupted call.  Threads that libc does not know, made by clone() as a
 * system call, are not waited for in this case.
 *
 * The lock of all streams
 *	fork() of glibc first runs the handlers and then takes its own locks:
 *	that of the list of all streams, and those of its malloc.  With a malloc
 *	that replaces glibc's, only the handlers protect it.  If the library's
 *	locks were taken before the list's, there would be a cycle (Sourceware
 *	bug 19431): getline() holds a stream and waits for the library's locks,
 *	fflush(NULL) holds the list and waits for the stream, fork() holds the
 *	library's locks and waits for the list.  Therefore fork_prepare() takes
 *	the list's lock before all others.  The order is then that of every
 *	other thread: list, stream, umem.  Because the lock counts how often its
 *	thread has taken it, fork() itself does not wait for it; glibc
 *	initializes it in the child before the handlers run there.
 *
 * Handlers that run inside these (registered before the library's constructor)
 * may allocate: for this thread the locks count as free (lock.h).
 */
#include <pthread.h>

#include "magazine/cpu.h"
#include "umem/base/page_map.h"
#include "umem/cache/import.h"
#include "umem/cache/cache.h"
#include "umem/debug/freed.h"
#include "umem/debug/report.h"
#include "umem/rcu/defer.h"
#include "umem/fork.h"
#include "umem/base/ready.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample_count.h"
#include "umem/profile/sample_unit.h"
#include "umem/debug/stack.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/heap.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Call f for each lock of the caches that has this rank. */
static void
fork_each_cache_lock(enum lock_rank rank, void (*f)(struct lock *))
{
	/* This thread has the list, although lock_is_held() does not see it. */
	umem_assert(load_relaxed(&cache_list_lock.state) != 0);
	list_foreach (cache, &cache_list, struct umem_cache, link) {
		if (rank == LOCK_IMPORT && cache->import != NULL)
			f(&cache->import->gate);
		if (rank == LOCK_SLAB)
			f(&cache->slabs.lock);
		for (unsigned i = 0;
		     rank == LOCK_DEPOT && cache->has_magazines &&
		     i < cache->mag.nshards;
		     i++)
			f(&magazine_shard(&cache->mag, i)->lock);
	}
}

/* In the order of their ranks. */
static void
fork_shut_caches(void)
{
	for (enum lock_rank rank = LOCK_DEPOT; rank <= LOCK_SLAB; rank++) {
		lock_shut_for_fork(rank);
		fork_each_cache_lock(rank, lock_await_for_fork);
	}
}

static void
fork_open_caches(bool child)
{
	for (enum lock_rank rank = LOCK_DEPOT; child && rank <= LOCK_SLAB;
	     rank++)
		fork_each_cache_lock(rank, lock_free_in_child);
	lock_open_after_fork();
}

/*
 * Functions of one file of glibc; other C libraries have none of the three.
 * The last makes the lock free, however often it was taken.
 */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

start_path void
fork_prepare(void)
{
	umem_assert(!lock_is_forking());
	/*
	 * A start that is under way in another thread must not be copied half
	 * done.
	 */
	if (os_is_single_threaded() || !umem_ready())
		return;
	defer_before_fork();
	if (_IO_list_lock != NULL)
		_IO_list_lock();
	lock_take_for_fork(&defer_lock);
	lock_take_for_fork(&cache_list_lock);
	lock_take_for_fork(&limit_lock);
	lock_take_for_fork(&arena_list_lock);
	fork_each_cache_lock(LOCK_IMPORT, lock_take_for_fork);
	cpu_lock_for_fork();
	fork_shut_caches();
	vmem_lock_for_fork();
	lock_take_for_fork(&heap_lock);
	lock_take_for_fork(&page_map_lock);
	lock_take_for_fork(&meta_lock);
	lock_take_for_fork(&sample_lock);
	lock_take_for_fork(&sample_stack_lock);
	lock_take_for_fork(&sample_unit_lock);
	lock_take_for_fork(&freed_large.lock);
	lock_take_for_fork(&freed_firewall.lock);
	umem_assert(umem_state == UMEM_READY);
	lock_fork_begin();
}

static start_path void
fork_release_locks(bool child)
{
	void (*unlock_streams)(void) =
	    child ? _IO_list_resetlock : _IO_list_unlock;

	umem_assert(lock_is_forking());
	lock_fork_end();
	lock_release_for_fork(&freed_firewall.lock);
	lock_release_for_fork(&freed_large.lock);
	if (child)
		report_after_fork();
	lock_release_for_fork(&sample_unit_lock);
	lock_release_for_fork(&sample_stack_lock);
	lock_release_for_fork(&sample_lock);
	lock_release_for_fork(&meta_lock);
	lock_release_for_fork(&page_map_lock);
	lock_release_for_fork(&heap_lock);
	vmem_unlock_for_fork(child);
	fork_open_caches(child);
	cpu_unlock_for_fork(child);
	fork_each_cache_lock(LOCK_IMPORT, lock_release_for_fork);
	lock_release_for_fork(&arena_list_lock);
	lock_release_for_fork(&limit_lock);
	lock_release_for_fork(&cache_list_lock);
	lock_release_for_fork(&defer_lock);
	if (unlock_streams != NULL)
		unlock_streams();
}

/*
 * The locks are not held if the process has one thread, or had no memory to
 * start the library.
 */
start_path void
fork_parent(void)
{
	if (!lock_is_forking())
		return;
	fork_release_locks(/* child */ false);
	defer_after_fork(/* child */ false);
}

start_path void
fork_child(void)
{
	os_process_after_fork();
	nofail_after_fork();
	sample_count_after_fork();
	stack_after_fork();
	if (lock_is_forking()) {
		update_after_fork(update_threads.is_counted == NULL ||
				  update_threads.is_counted());
		heap_after_fork();
		fork_release_locks(/* child */ true);
	} else if (os_is_single_threaded()) {
		return;
	}
	/*
	 * Even without the locks: a handler that runs after fork_prepare() may
	 * have started the first thread of a domain.
	 */
	defer_after_fork(/* child */ true);
}

/*
 * pthread_atfork() of glibc is a function inside each library, which calls the
 * first function below with the library's __dso_handle.  The linker puts it
 * behind all other code, where it would cost each process a page fault.
 */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void),
    void (*child)(void), void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static start_path int
handlers_register(void)
{
	return __register_atfork != NULL
		   ? __register_atfork(
			 fork_prepare, fork_parent, fork_child, &__dso_handle)
		   : pthread_atfork(fork_prepare, fork_parent, fork_child);
}

start_path void
fork_register(void)
{
	static uint32_t registered written_early; /* [a] */

	if (__atomic_exchange_n(&registered, 1, __ATOMIC_RELAXED) == 0 &&
	    handlers_register() != 0)
		store_relaxed(&registered, 0);
}
