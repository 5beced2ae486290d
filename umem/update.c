/*
 * update.c - upkeep: working sets, memory back to the kernel
 *
 * What is done
 *	update	for each cache, what a while has shown to be surplus goes back
 *		to the slabs, and magazines change size; hash tables of arenas
 *		grow; pages that have been free for a second go to the kernel
 *	room	when the heap grows, or is asked for much: what caches keep goes
 *		back to the slabs, and its memory to whoever wants some (room.c)
 *	reclaim	reclaim callbacks, then everything that is cached anywhere
 *		back to the arenas; when an allocation has found no memory
 *	trim	reclaim, and every free page to the kernel
 *
 * When
 *	Slow paths look at the clock, and do an update when one is due.  While
 *	there are free pages, one free in TICK_FREES is made slow for that, so
 *	that a program whose magazines do for all it wants comes by, too; if
 *	it has not been here for a while but for that (quiet.c), all goes back
 *	at once.
 *	In a process with several threads a thread of the library does it
 *	instead, so that memory comes back even if the program never calls
 *	again.  When some updates have found nothing to give back, the thread
 *	sleeps until a slow path wakes it.
 *
 * The thread's life
 *	It is never created inside malloc() or free(): pthread_create() and
 *	pthread_join() of glibc call them with a lock held that
 *	pthread_create() takes.  It is the program's own first call of
 *	pthread_create() that brings it (malloc.c), or thread=yes.
 *	A process ends when the last of its threads ends, and ours counts for
 *	libc.  So malloc.c counts the program's threads, and the last one that
 *	ends waits for ours to end first.  Without malloc.c nobody counts, and
 *	there is no thread unless thread=yes.
 *
 *	While the program has one thread it rests, and is not there: a program
 *	that knows of one thread may call clone() as a system call, and what
 *	another thread has in hand at that moment is never let go in the copy.
 *	The last thread but one that ends sees to it that the work has ended:
 *	it sets parked and then looks at the worker word, as the thread sets
 *	the worker word and then looks at parked, so one of them sees the other.
 *
 * One at a time
 *	The worker word has the thread pointer of whoever is at it.  It is not
 *	a lock: the work calls the program's destructors and reclaim callbacks,
 *	which may do anything, also destroy a cache or ask for more work (then
 *	the answer is no), and fork() must not wait for them.  The list of
 *	caches is walked by a cursor that umem_cache_destroy() moves on, and
 *	the lock of the list is dropped for the work on each cache.
 *
 *	Work that calls nothing of the program's others may do meanwhile
 *	(visit_each_cache()).  They are counted at the cache, which is not
 *	destroyed while they are there, and go on from it.
 *
 *	A forked child starts without a worker, and without visitors: a count
 *	of them holds in the process that it was made in, by the number of
 *	forks that led there.  So it holds in no child, neither for a cache that
 *	is off the list already, nor if it was a visitor that forked, in a
 *	signal's handler: that one does not take itself off a count of others.
 *	What worker and visitors of the parent were about to give back, a chain
 *	of magazines each at most, is lost to the child.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "umem/init.h"
#include "umem/quiet.h"
#include "umem/room.h"
#include "umem/update.h"
#include "vmem/heap.h"
#include "vmem/hooks.h"
#include "vmem/meta.h"
#include "vmem/os.h"

/* Free pages younger than this may be wanted again. */
#define PURGE_AGE_NS    1000000000
/*
 * Given back by one update: some 20 ms of the kernel's time.  And by one
 * free() of a program that is quiet.
 */
#define PURGE_LIMIT     (512 * MIB)
#define GIVING_LIMIT    (128 * MIB)
/*
 * Free memory beyond this, and beyond a fourth of what the heap ever had, goes
 * back before its time: a program that has freed so much may never call again.
 */
#define DIRTY_MOST      (64 * MIB)
#define YOUNG_AGE_NS    300000000
/*
 * Frees between two looks at the clock, and free pages that are worth it.
 * Fewer if more lies free than is used, and if that has begun to go back.
 */
#define TICK_FREES      500
#define TICK_URGENT     250
#define TICK_GIVING     20
#define TICK_DIRTY      (1 * MIB)
/* Updates that found nothing to do before the thread sleeps. */
#define IDLE_UPDATES    3
#define THREAD_STACK    (1 * MIB)
/* How long to wait for somebody else's reclaim: it may be waiting for us. */
#define RECLAIM_WAIT_NS 100000000

enum update_thread update_thread_wanted;
uint64_t update_interval_ns = 250000000;

static uint64_t due_ns;            /* [a] next update */
static uintptr_t worker;           /* [a] thread at work, 0: nobody */
static uint32_t worker_gone;       /* [a] counts ends of work, to wait on */
static struct list *cursor;        /* [cache_list_lock] next in the walk */
static struct umem_cache *current; /* [cache_list_lock] being worked on */
static uint32_t current_done;      /* [a] counts caches done, to wait on */
static unsigned nwaiting;          /* [cache_list_lock] in update_wait() */
static uint32_t nforks;            /* that led to this process */

/* The thread: started at most once in the life of a process. */
enum {
	NOT_STARTED,
	STARTED,
	ASLEEP,
	WANTED
};
static uint32_t thread_state; /* [a] */
static pthread_t thread;      /* [thread_state] */
static unsigned nprogram = 1; /* [a] threads of the program */
static uint32_t parked;       /* [a] 1: the thread is to do nothing */
static uintptr_t thread_self; /* [a] what it has in the worker word */

/* malloc.c has the one of libc, ours being in the way. */
bool (*update_thread_counted)(void);
int (*update_thread_create)(pthread_t *, const pthread_attr_t *,
    void *(*)(void *), void *) = pthread_create;
static uint32_t reap_wanted; /* [a] by umem_reap() */

static uintptr_t
self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

bool
worker_begin(void)
{
	uintptr_t nobody = 0;

	/* Sequentially consistent: see thread_park(). */
	return __atomic_compare_exchange_n(&worker, &nobody, self(), false,
	    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void
worker_end(void)
{
	__atomic_store_n(&worker, 0, __ATOMIC_RELEASE);
	__atomic_add_fetch(&worker_gone, 1, __ATOMIC_RELEASE);
	os_futex_wake(&worker_gone, INT32_MAX);
}

bool
worker_each_cache(bool (*f)(struct umem_cache *))
{
	bool any = false;

	lock_take(&cache_list_lock);
	cursor = cache_list.next;
	while (cursor != &cache_list) {
		struct umem_cache *cache =
		    container_of(cursor, struct umem_cache, link);

		cursor = cursor->next;
		current = cache;
		lock_release(&cache_list_lock);
		any |= f(cache);
		lock_take(&cache_list_lock);
		current = NULL;
		__atomic_add_fetch(&current_done, 1, __ATOMIC_RELEASE);
		if (nwaiting != 0)
			os_futex_wake(&current_done, INT32_MAX);
	}
	lock_release(&cache_list_lock);
	return any;
}

static bool
has_visitors_locked(const struct umem_cache *cache)
{
	return cache->visited == nforks && cache->nvisitors != 0;
}

/* Returns what leave_locked() has to know. */
static uint32_t
enter_locked(struct umem_cache *cache)
{
	if (cache->visited != nforks)
		cache->nvisitors = 0;
	cache->nvisitors++;
	return cache->visited = nforks;
}

static void
leave_locked(struct umem_cache *cache, uint32_t entered)
{
	if (entered == nforks)
		cache->nvisitors--;
	__atomic_add_fetch(&current_done, 1, __ATOMIC_RELEASE);
	if (nwaiting != 0)
		os_futex_wake(&current_done, INT32_MAX);
}

void
visit_each_cache(bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg)
{
	bool more = true;

	lock_take(&cache_list_lock);
	for (struct list *at = cache_list.next; at != &cache_list && more;
	     at = at->next) {
		struct umem_cache *cache =
		    container_of(at, struct umem_cache, link);
		uint32_t entered;

		if (!wanted(cache))
			continue;
		entered = enter_locked(cache);
		lock_release(&cache_list_lock);
		more = visit(cache, arg);
		lock_take(&cache_list_lock);
		/* Its link leads nowhere then. */
		more &= !cache->leaving;
		leave_locked(cache, entered);
	}
	lock_release(&cache_list_lock);
}

/* A destructor that destroys its own cache cannot wait for itself. */
static bool
is_worked_on_locked(const struct umem_cache *cache)
{
	return has_visitors_locked(cache) ||
	       (current == cache &&
		   __atomic_load_n(&worker, __ATOMIC_RELAXED) != self());
}

void
update_wait(struct umem_cache *cache)
{
	lock_take(&cache_list_lock);
	if (cursor == &cache->link)
		cursor = cache->link.next;
	list_remove(&cache->link);
	cache->leaving = true;
	while (is_worked_on_locked(cache)) {
		uint32_t seen =
		    __atomic_load_n(&current_done, __ATOMIC_ACQUIRE);

		nwaiting++;
		lock_release(&cache_list_lock);
		os_futex_wait(&current_done, seen, 0);
		lock_take(&cache_list_lock);
		nwaiting--;
	}
	lock_release(&cache_list_lock);
}

static bool
ask_for_objects(struct umem_cache *cache)
{
	if (cache->reclaim == NULL)
		return false;
	cache->reclaim(cache->priv);
	return true;
}

static bool
reap(struct umem_cache *cache)
{
	cache_reap(cache);
	return true;
}

static void
reap_all(void)
{
	worker_each_cache(ask_for_objects);
	worker_each_cache(reap);
}

/* True if there was something to give back, or will be. */
static bool
update_all(void)
{
	bool busy = true;

	if (__atomic_exchange_n(&reap_wanted, 0, __ATOMIC_RELAXED) != 0)
		reap_all();
	else
		busy = worker_each_cache(cache_update);
	vmem_update();
	return heap_purge(PURGE_AGE_NS, PURGE_LIMIT) != 0 || busy ||
	       heap_dirty() != 0;
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

/* The library's own structures lack memory that the heap may have. */
static bool
feed_meta(void)
{
	bool zeroed;
	void *at;

	if (!meta_starved())
		return false;
	at = heap_alloc(HEAP_UNIT, HEAP_UNIT, &zeroed);
	if (at == NULL)
		return false;
	meta_feed(at, HEAP_UNIT);
	return true;
}

bool
update_reclaim(size_t size)
{
	int saved = errno;

	if (feed_meta())
		return true;
	if (size > heap_committed())
		return false;
	if (!worker_begin())
		return reclaim_by_other();
	reap_all();
	worker_end();
	errno = saved;
	return true;
}

static vmem_t *reap_source; /* [worker] */

static bool
reap_if_of_source(struct umem_cache *cache)
{
	if (cache->slabs.source == reap_source)
		cache_reap(cache);
	return false;
}

bool
update_reclaim_source(vmem_t *source)
{
	if (!worker_begin())
		return false;
	reap_source = source;
	worker_each_cache(reap_if_of_source);
	worker_end();
	return true;
}

size_t
update_trim(void)
{
	if (worker_begin()) {
		reap_all();
		worker_end();
	}
	return heap_purge(0, SIZE_MAX);
}

/* Until the next update is due or, if that is not worth it, until woken. */
static void
thread_rest(bool busy)
{
	uint32_t started = STARTED;

	if (busy)
		os_futex_wait(&thread_state, STARTED, update_interval_ns);
	else if (__atomic_compare_exchange_n(&thread_state, &started, ASLEEP,
		     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		while (
		    __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) == ASLEEP)
			os_futex_wait(&thread_state, ASLEEP, 0);
	__atomic_store_n(&thread_state, STARTED, __ATOMIC_RELEASE);
}

/* The thread's turn.  True if there was something to do, or will be. */
static bool
thread_work(void)
{
	bool busy = false;

	if (!worker_begin())
		return false;
	/* Sequentially consistent, as in thread_park(). */
	if (__atomic_load_n(&parked, __ATOMIC_SEQ_CST) == 0)
		busy = update_all();
	worker_end();
	return busy;
}

static void *
thread_main(void *unused)
{
	unsigned nidle = 0;

	os_thread_name("umem");
	__atomic_store_n(&thread_self, self(), __ATOMIC_RELEASE);
	while (__atomic_load_n(&nprogram, __ATOMIC_ACQUIRE) != 0) {
		thread_rest(/* busy */ nidle < IDLE_UPDATES);
		nidle = nidle < IDLE_UPDATES ? nidle + 1 : 0;
		if (thread_work())
			nidle = 0;
		else if (__atomic_load_n(&parked, __ATOMIC_RELAXED) != 0)
			nidle = IDLE_UPDATES;
	}
	return unused;
}

static void
thread_wake(void)
{
	uint32_t was = __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE);

	/* It may be about to fall asleep. */
	while (was == ASLEEP || was == STARTED)
		if (__atomic_compare_exchange_n(&thread_state, &was, WANTED,
			false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			os_futex_wake(&thread_state, 1);
			return;
		}
}

/* pthread_create() allocates, so nothing may be held here. */
static void
thread_start(void)
{
	uint32_t none = NOT_STARTED;
	pthread_attr_t attr;
	sigset_t all, before;
	bool started;

	/* libc aborts where the kernel has come to refuse rseq. */
	if (__atomic_load_n(&nprogram, __ATOMIC_RELAXED) == 0 ||
	    !rseq_is_allowed(&cpu_layer.rseq) ||
	    !__atomic_compare_exchange_n(&thread_state, &none, STARTED, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	started = update_thread_create(&thread, &attr, thread_main, NULL) == 0;
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started) {
		/* Not again: the calls of the program will do. */
		update_thread_wanted = THREAD_NO;
		__atomic_store_n(&thread_state, NOT_STARTED, __ATOMIC_RELEASE);
	}
}

void
update_thread_offer(bool threads)
{
	int saved = errno;

	if ((threads ? umem_ready() : umem_start_early()) &&
	    (update_thread_wanted == THREAD_YES ||
		(threads && update_thread_wanted == THREAD_AUTO)))
		thread_start();
	errno = saved;
}

/* What it waits for may take long: it may run callbacks of the program. */
#define PARK_TRIES 100

static void
thread_park(void)
{
	uint32_t seen;

again:
	__atomic_store_n(&parked, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PARK_TRIES; i++) {
		seen = __atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE);
		uintptr_t at_work = __atomic_load_n(&worker, __ATOMIC_SEQ_CST);

		if (at_work == 0 ||
		    at_work != __atomic_load_n(&thread_self, __ATOMIC_ACQUIRE))
			break;
		os_futex_wait(&worker_gone, seen, 1000000);
	}
	/* Others may have begun meanwhile. */
	if (__atomic_load_n(&nprogram, __ATOMIC_SEQ_CST) > 1) {
		__atomic_store_n(&parked, 0, __ATOMIC_SEQ_CST);
		/* And those may have ended before that. */
		if (__atomic_load_n(&nprogram, __ATOMIC_SEQ_CST) == 1)
			goto again;
	}
}

void
update_thread_begins(void)
{
	__atomic_add_fetch(&nprogram, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&parked, 0, __ATOMIC_SEQ_CST);
}

void
update_thread_ends(void)
{
	int saved = errno;

	unsigned left = __atomic_sub_fetch(&nprogram, 1, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) == NOT_STARTED)
		return;
	if (left == 1 && update_thread_wanted != THREAD_YES)
		thread_park();
	if (left == 0) {
		thread_wake();
		pthread_join(thread, NULL);
		__atomic_store_n(&thread_state, NOT_STARTED, __ATOMIC_RELEASE);
	}
	errno = saved;
}

static bool
has_thread(void)
{
	return __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) !=
		   NOT_STARTED &&
	       __atomic_load_n(&parked, __ATOMIC_RELAXED) == 0;
}

/* However slow everything is, upkeep takes a tenth of the time at most. */
static void
update_put_off(uint64_t began)
{
	uint64_t end = os_now_ns();
	uint64_t rest = 10 * (end - began);

	if (rest < update_interval_ns)
		rest = update_interval_ns;
	__atomic_store_n(&due_ns, end + rest, __ATOMIC_RELAXED);
}

static void
update_due(uint64_t now)
{
	int saved = errno;

	__atomic_store_n(&due_ns, now + update_interval_ns, __ATOMIC_RELAXED);
	if (has_thread()) {
		if (__atomic_load_n(&thread_state, __ATOMIC_RELAXED) == ASLEEP)
			thread_wake();
	} else if (worker_begin()) {
		update_all();
		worker_end();
		update_put_off(now);
	}
	errno = saved;
}

static void
purge_excess(uint64_t now)
{
	static uint64_t looked_ns; /* [a] at the heap for old pages */
	size_t most = heap_committed() / 4;
	size_t dirty = heap_dirty();

	if (most < DIRTY_MOST)
		most = DIRTY_MOST;
	if (likely(dirty <= most))
		return;
	/* What was just freed is the most likely to be wanted again. */
	if (now - __atomic_load_n(&looked_ns, __ATOMIC_RELAXED) >
	    YOUNG_AGE_NS / 2) {
		__atomic_store_n(&looked_ns, now, __ATOMIC_RELAXED);
		heap_purge(YOUNG_AGE_NS, dirty - most / 2);
	}
}

static uint32_t
ticks_get(void)
{
	return __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED);
}

static void
ticks_set(uint32_t n)
{
	if (ticks_get() != n)
		cpu_set_ticks(n);
}

void
update_poll(void)
{
	uint64_t due = __atomic_load_n(&due_ns, __ATOMIC_RELAXED);
	uint64_t now = os_now_ns();

	quiet_ends(now);
	if (heap_dirty() >= TICK_DIRTY && ticks_get() > TICK_FREES &&
	    !has_thread())
		ticks_set(TICK_FREES);
	room_look(now);
	if (likely(now < due)) {
		purge_excess(now);
		return;
	}
	if (due == 0)
		__atomic_store_n(
		    &due_ns, now + update_interval_ns, __ATOMIC_RELAXED);
	else if (__atomic_compare_exchange_n(&due_ns, &due, UINT64_MAX, false,
		     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		update_due(now);
}

static uint64_t quiet_ns; /* [a] when it was found so, 0: all is done */

/*
 * Nobody has missed what is in depots, nor in most magazines, nor the pages
 * that were free then.  It may take more than one call.
 */
static void
give_all_back(uint64_t now)
{
	int saved = errno;
	uint64_t since;

	if (!worker_begin())
		return;
	since = __atomic_load_n(&quiet_ns, __ATOMIC_RELAXED);
	if (since == 0) {
		/* No callbacks: memory is not short, and this is a free(). */
		worker_each_cache(reap);
		since = now;
	}
	if (heap_purge(now - since, GIVING_LIMIT) < GIVING_LIMIT) {
		since = 0;
		ticks_set(INT32_MAX);
	} else {
		ticks_set(TICK_GIVING);
	}
	__atomic_store_n(&quiet_ns, since, __ATOMIC_RELAXED);
	worker_end();
	errno = saved;
}

/* Either way, unless the last time has not come to its end. */
static bool
found_quiet(uint64_t now)
{
	size_t dirty = heap_dirty();
	/* What is in use is known under a lock only. */
	bool urgent =
	    quiet_is_urgent(dirty, 0) && quiet_is_urgent(dirty, heap_used());
	bool by_calls = quiet_by_calls(now, urgent);

	if (__atomic_load_n(&quiet_ns, __ATOMIC_RELAXED) != 0 ||
	    quiet_by_time(now))
		return true;
	if (by_calls)
		quiet_believed(now, dirty, heap_fresh());
	else
		ticks_set(urgent ? TICK_URGENT : TICK_FREES);
	return by_calls;
}

void
update_tick(void)
{
	uint64_t now = os_now_ns();

	if (has_thread())
		ticks_set(INT32_MAX);
	else if (found_quiet(now))
		give_all_back(now);
	else if (now > __atomic_load_n(&due_ns, __ATOMIC_RELAXED))
		update_due(now);
}

void
update_after_fork(bool counted)
{
	nprogram = counted ? 1 : 0;
	parked = 0;
	worker = 0;
	current = NULL;
	nwaiting = 0;
	nforks++;
	/* A wait that a handler forked in goes on here, and then ends. */
	current_done++;
	due_ns = 0;
	quiet_ns = 0;
	quiet_after_fork();
	thread_state = NOT_STARTED;
}

public void
umem_reap(void)
{
	int saved = errno;

	if (!umem_ready())
		return;
	if (has_thread()) {
		__atomic_store_n(&reap_wanted, 1, __ATOMIC_RELAXED);
		thread_wake();
	} else if (worker_begin()) {
		reap_all();
		worker_end();
	}
	errno = saved;
}

public void
umem_cache_reap_now(umem_cache_t *cache)
{
	int saved = errno;

	ask_for_objects(cache);
	cache_reap(cache);
	errno = saved;
}
