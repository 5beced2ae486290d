/*
 * update_thread.c - the thread that does upkeep in a process with several
 *
 * The thread's life
 *	It is never created inside malloc() or free(): pthread_create() and
 *	pthread_join() of glibc call them with a lock held that
 *	pthread_create() takes.  It is the program's own first call of
 *	pthread_create() that brings it (thread.c), or thread=yes.
 *	A process ends when the last of its threads ends, and ours counts for
 *	libc.  So thread.c counts the program's threads, and the last one that
 *	ends waits for ours to end first.  Without thread.c nobody counts, and
 *	there is no thread unless thread=yes.
 *
 *	While the program has one thread it rests, and is not there: a program
 *	that knows of one thread may call clone() as a system call, and what
 *	another thread has in hand at that moment is never let go in the copy.
 *	The last thread but one that ends sees to it that the work has ended:
 *	it sets parked and then looks at the worker word, as the thread sets
 *	the worker word and then looks at parked, so one of them sees the other.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "umem/init.h"
#include "umem/update.h"
#include "umem/update_thread.h"
#include "umem/worker.h"
#include "vmem/hooks.h"
#include "vmem/os.h"

/* Updates that found nothing to do before the thread sleeps. */
#define IDLE_UPDATES 3
#define THREAD_STACK (1 * MIB)

enum update_thread update_thread_wanted;

/* The thread: started at most once in the life of a process. */
enum {
	NOT_STARTED,
	STARTED,
	ASLEEP,
	WANTED
};
static uint32_t thread_state; /* [a] */
static pthread_t thread;      /* [is_known] */
static bool is_known;         /* [a] who created it has its handle */
static unsigned nprogram = 1; /* [a] threads of the program */
static uint32_t parked;       /* [a] 1: the thread is to do nothing */
static uintptr_t thread_self; /* [a] what it has in the worker word */

/* thread.c has the one of libc, ours being in the way. */
bool (*update_thread_counted)(void);
int (*update_thread_create)(pthread_t *, const pthread_attr_t *,
    void *(*)(void *), void *) = pthread_create;

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
	__atomic_store_n(&thread_self, worker_self(), __ATOMIC_RELEASE);
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

void
update_thread_wake(void)
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
	__atomic_store_n(&is_known, started, __ATOMIC_RELEASE);
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

static bool
has_state(void)
{
	return __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) != NOT_STARTED;
}

/* What it waits for may take long: it may run callbacks of the program. */
#define PARK_TRIES   100
#define PARK_WAIT_NS 1000000

static void
thread_park(void)
{
again:
	__atomic_store_n(&parked, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PARK_TRIES; i++)
		if (worker_await_thread(&thread_self, PARK_WAIT_NS))
			break;
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

	if (!has_state())
		return;
	if (left == 1 && update_thread_wanted != THREAD_YES)
		thread_park();
	if (left == 0) {
		update_thread_wake();
		/* One who is not counted may be creating it. */
		while (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE) &&
		       has_state())
			sched_yield();
		if (__atomic_exchange_n(&is_known, false, __ATOMIC_ACQUIRE))
			pthread_join(thread, NULL);
		__atomic_store_n(&thread_state, NOT_STARTED, __ATOMIC_RELEASE);
	}
	errno = saved;
}

bool
update_has_thread(void)
{
	return has_state() && __atomic_load_n(&parked, __ATOMIC_RELAXED) == 0;
}

void
update_thread_rouse(void)
{
	if (__atomic_load_n(&thread_state, __ATOMIC_RELAXED) == ASLEEP)
		update_thread_wake();
}

void
update_thread_after_fork(bool counted)
{
	nprogram = counted ? 1 : 0;
	parked = 0;
	is_known = false;
	thread_state = NOT_STARTED;
}
