/*
 * update.c - upkeep: working sets, memory back to the kernel
 *
 * What is done
 *	update	for each cache, what a while has shown to be surplus goes back
 *		to the slabs, and magazines change size; hash tables of arenas
 *		grow; pages that have been free for a second go to the kernel
 *	reclaim	reclaim callbacks, then everything that is cached anywhere
 *		back to the arenas; when an allocation has found no memory
 *	trim	reclaim, and every free page to the kernel
 *
 * When
 *	Slow paths look at a coarse clock, and do an update when one is due.
 *	Once the process has several threads and the heap has free pages, a
 *	thread of the library does it instead, so that memory comes back even
 *	if the program never calls again.  When nothing is left to give back
 *	the thread sleeps until a slow path wakes it.
 *
 * One at a time
 *	The worker word has the thread pointer of whoever is at it.  It is not
 *	a lock: the work calls the program's destructors and reclaim callbacks,
 *	which may do anything, also destroy a cache or ask for more work (then
 *	the answer is no), and fork() must not wait for them.  The list of
 *	caches is walked by a cursor that umem_cache_destroy() moves on, and
 *	the lock of the list is dropped for the work on each cache.
 *	A forked child starts without a worker; what its parent's was about to
 *	give back, a chain of magazines at most, is lost to the child.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "umem/init.h"
#include "umem/update.h"
#include "vmem/heap.h"
#include "vmem/hooks.h"
#include "vmem/os.h"

/* Free pages younger than this may be wanted again. */
#define PURGE_AGE_NS    1000000000
/* Given back by one update: some 10 ms of the kernel's time. */
#define PURGE_LIMIT     (256 * MIB)
/* Free memory that is worth a thread. */
#define THREAD_DIRTY    (1 * MIB)
#define THREAD_STACK    (256 * KIB)
/* How long to wait for somebody else's reclaim: it may be waiting for us. */
#define RECLAIM_WAIT_NS 100000000

enum update_thread update_thread_wanted;
uint64_t update_interval_ns = 1000000000;

static uint64_t due_ns;            /* [a] next update */
static uintptr_t worker;           /* [a] thread at work, 0: nobody */
static uint32_t worker_gone;       /* [a] counts ends of work, to wait on */
static struct list *cursor;        /* [cache_list_lock] next in the walk */
static struct umem_cache *current; /* [cache_list_lock] being worked on */
static uint32_t current_done;      /* [a] counts caches done, to wait on */

/* The thread: started at most once in the life of a process. */
enum {
	NOT_STARTED,
	STARTED,
	ASLEEP,
	WANTED
};
static uint32_t thread_state; /* [a] */
static uint32_t reap_wanted;  /* [a] by umem_reap() */

/* Exported by glibc; other libraries may lack it. */
extern char __libc_single_threaded __attribute__((weak));

static uintptr_t
self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

static bool
work_begin(void)
{
	uintptr_t nobody = 0;

	return __atomic_compare_exchange_n(&worker, &nobody, self(), false,
	    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void
work_end(void)
{
	__atomic_store_n(&worker, 0, __ATOMIC_RELEASE);
	__atomic_add_fetch(&worker_gone, 1, __ATOMIC_RELEASE);
	os_futex_wake(&worker_gone, INT32_MAX);
}

/* The worker's walk; f is called without a lock. */
static void
each_cache(void (*f)(struct umem_cache *))
{
	lock_take(&cache_list_lock);
	cursor = cache_list.next;
	while (cursor != &cache_list) {
		struct umem_cache *cache =
		    container_of(cursor, struct umem_cache, link);

		cursor = cursor->next;
		current = cache;
		lock_release(&cache_list_lock);
		f(cache);
		lock_take(&cache_list_lock);
		current = NULL;
		__atomic_add_fetch(&current_done, 1, __ATOMIC_RELEASE);
		os_futex_wake(&current_done, INT32_MAX);
	}
	lock_release(&cache_list_lock);
}

void
update_wait(struct umem_cache *cache)
{
	lock_take(&cache_list_lock);
	if (cursor == &cache->link)
		cursor = cache->link.next;
	list_remove(&cache->link);
	/* A destructor that destroys its own cache cannot wait for itself. */
	while (current == cache &&
	       __atomic_load_n(&worker, __ATOMIC_RELAXED) != self()) {
		uint32_t seen =
		    __atomic_load_n(&current_done, __ATOMIC_ACQUIRE);

		lock_release(&cache_list_lock);
		os_futex_wait(&current_done, seen, 0);
		lock_take(&cache_list_lock);
	}
	lock_release(&cache_list_lock);
}

static void
ask_for_objects(struct umem_cache *cache)
{
	if (cache->reclaim != NULL)
		cache->reclaim(cache->priv);
}

static void
reap_all(void)
{
	each_cache(ask_for_objects);
	each_cache(cache_reap);
}

static void
update_all(void)
{
	if (__atomic_exchange_n(&reap_wanted, 0, __ATOMIC_RELAXED) != 0)
		reap_all();
	else
		each_cache(cache_update);
	vmem_update();
	heap_purge(PURGE_AGE_NS, PURGE_LIMIT);
}

static bool
reclaim_by_other(void)
{
	uint32_t seen = __atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE);
	uintptr_t at_work = __atomic_load_n(&worker, __ATOMIC_RELAXED);

	if (at_work == self())
		return false;
	if (at_work != 0)
		os_futex_wait(&worker_gone, seen, RECLAIM_WAIT_NS);
	return true;
}

bool
update_reclaim(size_t size)
{
	int saved = errno;

	if (size > heap_committed())
		return false;
	if (!work_begin())
		return reclaim_by_other();
	reap_all();
	work_end();
	errno = saved;
	return true;
}

size_t
update_trim(void)
{
	if (work_begin()) {
		reap_all();
		work_end();
	}
	return heap_purge(0, SIZE_MAX);
}

static bool
thread_has_work(void)
{
	return heap_dirty() != 0 ||
	       __atomic_load_n(&reap_wanted, __ATOMIC_RELAXED) != 0;
}

/* Until a slow path says so, or the next update is due. */
static void
thread_rest(void)
{
	uint32_t started = STARTED;

	if (thread_has_work()) {
		os_futex_wait(&thread_state, STARTED, update_interval_ns);
		return;
	}
	if (__atomic_compare_exchange_n(&thread_state, &started, ASLEEP, false,
		__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		os_futex_wait(&thread_state, ASLEEP, 0);
}

static void *
thread_main(void *unused)
{
	os_thread_name("umem");
	for (;;) {
		thread_rest();
		if (__atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) == ASLEEP)
			continue;
		__atomic_store_n(&thread_state, STARTED, __ATOMIC_RELEASE);
		if (work_begin()) {
			update_all();
			work_end();
		}
	}
	return unused;
}

static void
thread_wake(void)
{
	uint32_t was = __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE);

	if ((was == ASLEEP || was == STARTED) &&
	    __atomic_compare_exchange_n(&thread_state, &was, WANTED, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		os_futex_wake(&thread_state, 1);
}

static bool
thread_is_worth_it(void)
{
	if (update_thread_wanted != THREAD_AUTO)
		return update_thread_wanted == THREAD_YES;
	return &__libc_single_threaded != NULL && __libc_single_threaded == 0 &&
	       heap_dirty() >= THREAD_DIRTY;
}

/* pthread_create() allocates, so nothing may be held here. */
static void
thread_start(void)
{
	uint32_t none = NOT_STARTED;
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	bool started;

	if (!__atomic_compare_exchange_n(&thread_state, &none, STARTED, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	started = pthread_create(&thread, &attr, thread_main, NULL) == 0;
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started) {
		/* Not again: the calls of the program will do. */
		update_thread_wanted = THREAD_NO;
		__atomic_store_n(&thread_state, NOT_STARTED, __ATOMIC_RELEASE);
	}
}

static void
update_due(uint64_t now)
{
	int saved = errno;

	__atomic_store_n(&due_ns, now + update_interval_ns, __ATOMIC_RELAXED);
	if (__atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) == NOT_STARTED &&
	    thread_is_worth_it())
		thread_start();
	if (__atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) != NOT_STARTED) {
		if (__atomic_load_n(&thread_state, __ATOMIC_RELAXED) == ASLEEP)
			thread_wake();
	} else if (work_begin()) {
		update_all();
		work_end();
	}
	errno = saved;
}

void
update_poll(void)
{
	uint64_t due = __atomic_load_n(&due_ns, __ATOMIC_RELAXED);
	uint64_t now = os_now_ns();

	if (likely(now < due))
		return;
	if (due == 0)
		__atomic_store_n(
		    &due_ns, now + update_interval_ns, __ATOMIC_RELAXED);
	else if (__atomic_compare_exchange_n(&due_ns, &due, UINT64_MAX, false,
		     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		update_due(now);
}

void
update_after_fork(void)
{
	worker = 0;
	current = NULL;
	due_ns = 0;
	thread_state = NOT_STARTED;
}

public
void
umem_reap(void)
{
	int saved = errno;

	if (!umem_ready())
		return;
	if (__atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) != NOT_STARTED) {
		__atomic_store_n(&reap_wanted, 1, __ATOMIC_RELAXED);
		thread_wake();
	} else if (work_begin()) {
		reap_all();
		work_end();
	}
	errno = saved;
}

public
void
umem_cache_reap_now(umem_cache_t *cache)
{
	int saved = errno;

	ask_for_objects(cache);
	cache_reap(cache);
	errno = saved;
}
