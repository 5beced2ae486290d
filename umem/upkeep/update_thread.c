/*
 * update_thread.c - the thread that does upkeep in a process with several
 * threads
 *
 * When it exists
 *	It exists while the program has two threads or more; with thread=yes,
 *	one or more.  A program with one thread must be alone in its process.
 *	Otherwise a program that has joined its threads would confine itself and
 *	leave a task outside, unshare() and setns() would be refused, and a copy
 *	made by clone() as a system call would keep the locks of the upkeep
 *	thread.  Because a process ends when the last of its threads ends, the
 *	upkeep thread must not be that one.
 *
 *	There is one exception.  If the program has one thread left and
 *	LINGER_MIN bytes or more are idle, the upkeep thread stays until it
 *	has returned them, for LINGER_NS at most.  Otherwise a program that
 *	waits after it has joined its threads would keep the memory that they
 *	have freed.  prctl(), unshare() and setns() of the program end the
 *	thread before that (thread.c).
 *
 *	thread.c counts the threads of the program.  Without thread.c no thread
 *	is counted, and the upkeep thread exists with thread=yes only.  Threads
 *	that libc creates for itself, and those of thrd_create(), are not
 *	counted.
 *
 * The keeper
 *	The keeper is the thread that creates or ends the upkeep thread; there
 *	is one at a time (keeper_try()).  A thread first changes the count.
 *	Then, if the upkeep thread should exist and does not, or the other way
 *	round, it tries to become the keeper.  If another thread is the keeper,
 *	it goes on with its own work: the keeper checks the count again after it
 *	has ceased to be the keeper.  All of these accesses are sequentially
 *	consistent, so either the thread finds no keeper or the keeper finds the
 *	new count, and neither waits.
 *
 *	The upkeep thread is never created inside malloc() or free(), which
 *	glibc calls while it holds a lock that pthread_create() takes.  It is
 *	created in the program's pthread_create(), and at the end of its
 *	threads.
 *
 * The end of the upkeep thread
 *	The thread of the program that finds the count at 1, at its own end, is
 *	the keeper: it tells the upkeep thread to end, by a new epoch, and joins
 *	it.  So the program is alone in its process when it has joined its
 *	threads.
 *
 *	An upkeep thread that has stayed longer becomes the keeper itself, and
 *	the next keeper joins it.  Then it checks the count again, as each
 *	keeper does, and creates the next upkeep thread if the program has
 *	created a thread.
 *
 *	The join waits for functions of the library only, which wait for locks
 *	of the library only.  It does not wait for functions of the program
 *	(destructors, reclaim callbacks, sources of arenas), because they may
 *	wait for a lock whose holder waits for the keeper.  Before each such
 *	call the upkeep thread publishes its epoch in calling_epoch, then checks
 *	whether that is still the present epoch.  The keeper changes the epoch,
 *	then checks calling_epoch.  By sequential consistency either the upkeep
 *	thread makes no further call, and is joined, or the keeper sees that it
 *	is in a call.  Then the keeper waits for at most
 *	PROGRAM_WAIT_NS and detaches the thread, which ends by itself when the
 *	function returns.
 *
 * Attributes
 *	The upkeep thread and the threads of umem/rcu have these:
 *	    scheduling	SCHED_OTHER, also if its creator is a real-time thread
 *	    nice value	0
 *	    CPUs	those of the process when the library started; its
 *			creator may be bound to one
 *	    signals	all blocked
 *	    name	"umem" or "umem rcu"
 *	    stack	THREAD_STACK bytes of its own
 *	    all else	as its creator: cgroup, timer slack, I/O priority,
 *			memory policy, credentials, namespaces, filters
 *	The thread sets the first three itself when it begins.  If the kernel
 *	does not permit one, or the process is confined, it stays as it is.
 *
 * A limit of threads (RLIMIT_NPROC, pids.max)
 *	If pthread_create() of the program finds no room, the upkeep thread ends
 *	and gives its place to the thread of the program.  The program does
 *	upkeep in its calls until one of its threads is created or ends.
 *
 * Cost
 *	A program that creates and joins threads in a loop would create two each
 *	time.  So STARTS upkeep threads may be created at once, and then one for
 *	each update interval.  A program that has used them up does upkeep in
 *	its calls, like one with a single thread, until one of its threads is
 *	created or ends later.
 */
#include <errno.h>
#include <signal.h>

#include "umem/cache/cache_hooks.h"
#include "umem/base/ready.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/snapshot.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "umem/cache/worker.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

/*
 * Updates without anything to do before the thread sleeps: memory of CPU caches
 * is released by the second update after its last use, and the third finds the
 * pages of that.
 */
#define IDLE_UPDATES 3
/* Functions of the program run on it; mlockall() locks it in memory. */
#define THREAD_STACK (1 * MIB)
#define STARTS       8
/* How long to wait for a created thread to run: a machine may be busy. */
#define BEGIN_NS     1000000000

/* See "When it exists". */
#define LINGER_NS  ((uint64_t)2500000000)
#define LINGER_MIN (4 * MIB)

enum update_thread update_thread_wanted;

/* States of the upkeep thread. */
enum {
	AWAKE,
	ASLEEP,
	WANTED /* work is pending: must not fall asleep */
};

static unsigned nprogram = 1;     /* [a] threads of the program */
static uint32_t exists;           /* [a] 1: this epoch has a thread */
static uint32_t keeper;           /* [a] 1: a thread is the keeper */
static pthread_t thread;          /* [keeper] */
static uint32_t has_ended;        /* [a] 1: the next keeper joins the thread */
static unsigned nstarts = STARTS; /* [keeper] starts that are left */
static uint64_t counted_ns;       /* [keeper] when nstarts was last raised */
static uint32_t state;            /* [a] of the upkeep thread, to wait on */
static uint32_t epoch = 1;        /* [a] changes to end the upkeep thread */
static uint32_t running_epoch;    /* [a] of the last thread that began, or 0 */
static uintptr_t running_self;    /* [a] thread pointer of that thread */
static uint64_t linger_end_ns;    /* [a] stay until then; 0: do not stay */
static uint32_t working_epoch;    /* [worker] of the thread at work, or 0 */
static uint32_t calling_epoch;    /* [a] of the thread in a call, or 0 */

bool
update_thread_create(
    pthread_t *created, bool detached, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = update_threads.create_next != NULL
		    ? update_threads.create_next(created, &attr, run, arg)
		    : pthread_create(created, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return error == 0;
}

void
update_thread_begin(const char *name)
{
	os_thread_name(name);
	os_thread_ordinary();
}

static bool
is_of_epoch(uint32_t own_epoch)
{
	return __atomic_load_n(&epoch, __ATOMIC_SEQ_CST) == own_epoch;
}

/*
 * Sleeps until the thread is woken.  A thread of the program that freed memory
 * after the last update, and read the state before it was ASLEEP, did not wake
 * this thread and may never call again.  So this thread checks once more, after
 * a time in which every earlier store has become visible.
 */
static void
update_thread_sleep(void)
{
	os_futex_wait(&state, ASLEEP, update_interval_ns);
	while (load_acquire(&state) == ASLEEP && !update_may_purge())
		os_futex_wait(&state, ASLEEP, 0);
}

/*
 * Waits until the next update is due or, if nothing is left to do, until woken.
 */
static void
update_thread_rest(bool busy)
{
	uint32_t awake = AWAKE;

	if (busy)
		os_futex_wait(&state, AWAKE, update_interval_ns);
	else if (__atomic_compare_exchange_n(&state, &awake, ASLEEP, false,
		     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		update_thread_sleep();
	store_release(&state, AWAKE);
}

/* Does one update.  Returns true if there was something to do, or will be. */
static bool
update_thread_work(uint32_t own_epoch)
{
	bool busy;

	/*
	 * Another thread is the worker: a requested reap is still to be done.
	 */
	if (!worker_begin())
		return true;
	umem_assert(working_epoch == 0);
	working_epoch = own_epoch;
	busy = update_all();
	working_epoch = 0;
	worker_end();
	cache_deferral.wake();
	return busy;
}

static void update_thread_settle(void);

/*
 * Ends the exceptional stay of the upkeep thread: nothing is left to do, or its
 * time is over.  A thread of the program may have renewed it meanwhile.
 */
static void
linger_end_if_due(bool idle)
{
	uint64_t end = __atomic_load_n(&linger_end_ns, __ATOMIC_SEQ_CST);

	if (end == 0 || (!idle && os_now_ns() < end))
		return;
	if (__atomic_compare_exchange_n(&linger_end_ns, &end, 0, false,
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		update_thread_settle();
}

static void *
update_thread_main(void *arg)
{
	uint32_t own_epoch = (uint32_t)(uintptr_t)arg;
	unsigned nidle = 0;

	update_thread_begin("umem");
	snapshot_served_by(&state, WANTED);
	store_relaxed(&running_self, thread_self());
	store_release(&running_epoch, own_epoch);
	os_futex_wake(&running_epoch, INT32_MAX);
	while (is_of_epoch(own_epoch)) {
		update_thread_rest(/* busy */ nidle < IDLE_UPDATES);
		if (!is_of_epoch(own_epoch))
			break;
		nidle = nidle < IDLE_UPDATES ? nidle + 1 : 0;
		if (snapshot_serve(SNAPSHOT_WAIT_NS))
			nidle = 0;
		if (update_thread_work(own_epoch))
			nidle = 0;
		linger_end_if_due(/* idle */ nidle >= IDLE_UPDATES);
	}
	return NULL;
}

bool
update_thread_enter(bool calls_program)
{
	if (working_epoch == 0)
		return true;
	if (calls_program)
		__atomic_store_n(
		    &calling_epoch, working_epoch, __ATOMIC_SEQ_CST);
	if (is_of_epoch(working_epoch))
		return true;
	update_thread_leave();
	return false;
}

void
update_thread_leave(void)
{
	if (working_epoch == 0)
		return;
	__atomic_store_n(&calling_epoch, 0, __ATOMIC_SEQ_CST);
	if (!is_of_epoch(working_epoch))
		os_futex_wake(&calling_epoch, 1);
}

void
update_thread_wake(void)
{
	uint32_t seen = load_acquire(&state);

	/* The thread may be about to fall asleep. */
	while (seen == ASLEEP || seen == AWAKE)
		if (__atomic_compare_exchange_n(&state, &seen, WANTED, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			os_futex_wake(&state, 1);
			return;
		}
}

static bool
starts_are_left(void)
{
	umem_assert(keeper != 0 && nstarts <= STARTS);

	uint64_t now = os_now_ns();
	uint64_t nnew = (now - counted_ns) / update_interval_ns;

	if (nnew > 0) {
		nstarts =
		    nnew > STARTS - nstarts ? STARTS : nstarts + (unsigned)nnew;
		counted_ns = now;
	}
	return nstarts > 0;
}

/*
 * pthread_create() allocates, so no lock may be held here.  A thread of the
 * program that frees memory before exists is set does not wake the upkeep
 * thread, which may be asleep by then.
 */
static bool
update_thread_start(void)
{
	umem_assert(exists == 0);
	/*
	 * libc aborts if the kernel has come to refuse the rseq registration.
	 */
	if (!starts_are_left() || !rseq_is_allowed(&cpu_layer.rseq))
		return false;
	nstarts--;
	store_release(&state, AWAKE);
	if (!update_thread_create(&thread, /* detached */ false,
		update_thread_main, (void *)(uintptr_t)epoch))
		return false;
	__atomic_store_n(&exists, 1, __ATOMIC_SEQ_CST);
	update_thread_wake_if_asleep();
	return true;
}

/* Is the caller the upkeep thread of the present epoch? */
static bool
is_upkeep_thread(void)
{
	return is_of_epoch(load_acquire(&running_epoch)) &&
	       load_relaxed(&running_self) == thread_self();
}

static void
update_thread_stop(void)
{
	bool is_self = is_upkeep_thread();
	uint32_t own_epoch = epoch;
	uint32_t next = own_epoch + 1 == 0 ? 1 : own_epoch + 1;

	umem_assert(keeper != 0 && exists != 0 && own_epoch != 0);
	/* Before exists; see update_thread_end_now(). */
	__atomic_store_n(&has_ended, is_self, __ATOMIC_SEQ_CST);
	__atomic_store_n(&exists, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&epoch, next, __ATOMIC_SEQ_CST);
	update_thread_wake();
	if (is_self)
		return;
	for (uint64_t ns = 0; ns < PROGRAM_WAIT_NS; ns += POLL_NS) {
		if (__atomic_load_n(&calling_epoch, __ATOMIC_SEQ_CST) !=
		    own_epoch) {
			pthread_join(thread, NULL);
			return;
		}
		os_futex_wait(&calling_epoch, own_epoch, POLL_NS);
	}
	pthread_detach(thread);
}

/* Joins the thread that has ended its stay, unless it is the caller. */
static void
join_ended(void)
{
	if (load_relaxed(&has_ended) == 0)
		return;
	if (pthread_join(thread, NULL) != 0)
		pthread_detach(thread);
	__atomic_store_n(&has_ended, 0, __ATOMIC_SEQ_CST);
}

static bool
is_wanted(void)
{
	unsigned n = __atomic_load_n(&nprogram, __ATOMIC_SEQ_CST);

	if (update_thread_wanted == THREAD_NO || n == 0)
		return false;
	return n > 1 || update_thread_wanted == THREAD_YES ||
	       __atomic_load_n(&linger_end_ns, __ATOMIC_SEQ_CST) != 0;
}

static bool
keeper_try(void)
{
	uint32_t nobody = 0;

	return __atomic_compare_exchange_n(
	    &keeper, &nobody, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/*
 * Does the keeper's work, then ceases to be the keeper.  gives_way: the upkeep
 * thread ends in any case.  Returns false if it cannot be created now.  Signals
 * are blocked meanwhile, because the child of a handler that forks would
 * continue in the midst of this.  Cancellation is disabled, so the join is no
 * cancellation point.
 */
static bool
keeper_work(bool gives_way)
{
	sigset_t all, before;
	int cancel;
	bool done = true, wanted;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	join_ended();
	/*
	 * Asked once, because the number of threads may change at any time:
	 * an answer for the start and another for the stop could stop a thread
	 * that does not exist.
	 */
	wanted = !gives_way && is_wanted();
	if (wanted && !update_has_thread())
		done = update_thread_start();
	else if (!wanted && update_has_thread())
		update_thread_stop();
	umem_assert(keeper == 1);
	__atomic_store_n(&keeper, 0, __ATOMIC_SEQ_CST);
	pthread_setcancelstate(cancel, &cancel);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return done;
}

void
update_thread_await(void)
{
	for (uint64_t ns = 0; ns < BEGIN_NS; ns += POLL_NS) {
		uint32_t seen = load_acquire(&running_epoch);

		if (__atomic_load_n(&keeper, __ATOMIC_SEQ_CST) == 0 &&
		    (!update_has_thread() || is_of_epoch(seen)))
			return;
		os_futex_wait(&running_epoch, seen, POLL_NS);
	}
}

/*
 * A program with the option "confined" may get its filter as soon as this
 * returns.  Then the thread that was created must have made the calls by which
 * libc starts it.
 */
static void
update_thread_settle(void)
{
	while (is_wanted() != update_has_thread() && keeper_try())
		if (!keeper_work(/* gives_way */ false))
			break;
	if (os_is_confined())
		update_thread_await();
}

void
update_thread_offer(bool created)
{
	int saved = errno;

	if (created ? umem_ready() : umem_start_early())
		update_thread_settle();
	errno = saved;
}

bool
update_thread_give_way(void)
{
	if (!update_has_thread() || !keeper_try())
		return false;
	keeper_work(/* gives_way */ true);
	return true;
}

void
update_thread_begins(void)
{
	__atomic_add_fetch(&nprogram, 1, __ATOMIC_SEQ_CST);
}

/*
 * The next-to-last thread of the program is about to end: the upkeep thread is
 * to stay if enough memory is idle.  If two such threads end at once and none
 * of them finds that it is this one, no upkeep thread stays.
 */
static void
linger_begin_if_needed(void)
{
	uint64_t end = 0;

	if (update_thread_wanted != THREAD_AUTO || !update_has_thread() ||
	    __atomic_load_n(&nprogram, __ATOMIC_SEQ_CST) != 2)
		return;
	/* A process that says so may get a filter at any time. */
	if (!os_is_confined() && reclaim_idle_bytes() >= LINGER_MIN)
		end = os_now_ns() + LINGER_NS;
	__atomic_store_n(&linger_end_ns, end, __ATOMIC_SEQ_CST);
	if (end != 0)
		update_thread_wake();
}

/*
 * Returns when no keeper was found before or after the look at both words.  A
 * keeper that begins after the first look finds one thread that does not want
 * an upkeep thread, so it starts none.  If the upkeep thread is ending by
 * itself, this thread reads the store to has_ended, which precedes that to
 * exists.
 */
bool
update_thread_end_now(void)
{
	bool ended = false;

	__atomic_store_n(&linger_end_ns, 0, __ATOMIC_SEQ_CST);
	for (uint64_t ns = 0; ns < PROGRAM_WAIT_NS; ns += POLL_NS) {
		if (__atomic_load_n(&keeper, __ATOMIC_SEQ_CST) == 0 &&
		    !update_has_thread() &&
		    __atomic_load_n(&has_ended, __ATOMIC_SEQ_CST) == 0 &&
		    __atomic_load_n(&keeper, __ATOMIC_SEQ_CST) == 0)
			return ended;
		ended = true;
		if (keeper_try()) {
			keeper_work(/* gives_way */ false);
			break;
		}
		os_futex_wait(&keeper, 1, POLL_NS);
	}
	update_thread_settle();
	return ended;
}

void
update_thread_ends(void)
{
	int saved = errno;

	linger_begin_if_needed();
	__atomic_sub_fetch(&nprogram, 1, __ATOMIC_SEQ_CST);
	update_thread_settle();
	errno = saved;
}

bool
update_has_thread(void)
{
	/* Sequentially consistent for update_thread_settle(): see the top. */
	return __atomic_load_n(&exists, __ATOMIC_SEQ_CST) != 0;
}

void
update_thread_wake_if_asleep(void)
{
	if (load_relaxed(&state) == ASLEEP)
		update_thread_wake();
}

void
update_thread_after_fork(bool counted)
{
	nprogram = counted ? 1 : 0;
	exists = 0;
	keeper = 0;
	working_epoch = 0;
	calling_epoch = 0;
	linger_end_ns = 0;
	has_ended = 0;
	/* If the upkeep thread itself has forked, it ends after its call. */
	epoch = epoch + 1 == 0 ? 1 : epoch + 1;
}
