/*
 * snapshot.c - a copy of the process for the command umem, which searches it
 * while the process runs on
 *
 * The copy is a child that is made as by fork(), with the memory of this moment
 * (the kernel copies a page when the process next writes to it).  It never
 * runs: the command traces it from its first instruction on.  If the command
 * ends for any reason, the kernel lets the copy run, and the copy ends at once.
 *
 * Protocol.  The command writes to snapshot.state while all threads of the
 * process are stopped, and otherwise only reads it.
 *	SNAPSHOT_NONE	nothing is wanted
 *	SNAPSHOT_ASKED	the command wants a copy, and has woken the upkeep
 *			thread, which takes the request
 *	SNAPSHOT_READY	that thread waits, for a limited time.  The command
 *			stops all threads, and reads their registers
 *	SNAPSHOT_GO	of all threads, only that thread runs.  It makes the
 *			copy, and stores SNAPSHOT_NONE
 * If the command has ended meanwhile, the thread in SNAPSHOT_READY stops
 * waiting and stores SNAPSHOT_NONE.
 *
 * Effects of the copy on the program
 *	wait()		does not see it, because it sends no signal when it ends
 *			(except with __WALL or __WCLONE).  The library releases
 *			it after its end
 *	descriptors	are shared with it, so that a close() of the program
 *			closes
 *	pthread_atfork	no handler runs, and no lock is taken
 */
#include "umem/upkeep/described.h"
#include "umem/upkeep/snapshot.h"
#include "vmem/describe.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

enum {
	SNAPSHOT_NONE,
	SNAPSHOT_ASKED,
	SNAPSHOT_READY,
	SNAPSHOT_GO
};

static struct snapshot {
	uint32_t state;      /* [a] */
	uint32_t copy;       /* [a] process number of the copy, or 0 */
	uintptr_t thread;    /* thread pointer of the thread that is READY */
	uint32_t *sleeps_on; /* the upkeep thread's futex word; NULL: none */
	uint32_t waking;     /* its value that wakes the thread */
} snapshot;

/*
 * [a] A thread is the server: it may take a request.  An upkeep thread that
 * ends and the next one may see the same request.  If both stored their thread
 * pointers, and only then one of them took it, the command could let the other
 * one run.
 */
static bool is_served;

static bool
state_change(uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&snapshot.state, &from, to, false,
	    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void
snapshot_served_by(uint32_t *sleeps_on, uint32_t waking)
{
	snapshot.waking = waking;
	store_release(&snapshot.sleeps_on, sleeps_on);
}

/* Takes the request and makes the copy.  The caller is the server. */
static void
snapshot_make(uint64_t wait_ns)
{
	uint64_t began = os_now_ns();

	umem_assert(load_relaxed(&is_served));
	/* A confined process must not make unusual system calls. */
	if (os_is_confined()) {
		state_change(SNAPSHOT_ASKED, SNAPSHOT_NONE);
		return;
	}
	snapshot.thread = thread_self();
	if (!state_change(SNAPSHOT_ASKED, SNAPSHOT_READY))
		return;
	while (os_now_ns() - began < wait_ns &&
	       load_acquire(&snapshot.state) == SNAPSHOT_READY)
		os_futex_wait(&snapshot.state, SNAPSHOT_READY, POLL_NS);
	if (state_change(SNAPSHOT_READY, SNAPSHOT_NONE))
		return;
	/* The program may have overwritten it. */
	if (load_acquire(&snapshot.state) == SNAPSHOT_GO)
		store_relaxed(&snapshot.copy, os_copy_process());
	store_release(&snapshot.state, SNAPSHOT_NONE);
}

void
snapshot_reap(void)
{
	uint32_t copy = load_relaxed(&snapshot.copy);

	if (unlikely(copy != 0) && os_reap_copy(copy))
		__atomic_compare_exchange_n(&snapshot.copy, &copy, 0, false,
		    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool
snapshot_serve(uint64_t wait_ns)
{
	snapshot_reap();
	if (unlikely(load_relaxed(&snapshot.state) == SNAPSHOT_ASKED) &&
	    load_relaxed(&snapshot.copy) == 0 &&
	    !__atomic_exchange_n(&is_served, true, __ATOMIC_ACQUIRE)) {
		snapshot_make(wait_ns);
		store_release(&is_served, false);
	}
	return load_relaxed(&snapshot.copy) != 0;
}

void
snapshot_after_fork(void)
{
	snapshot.state = SNAPSHOT_NONE;
	snapshot.copy = 0;
	snapshot.sleeps_on = NULL;
	is_served = false;
}

DESCRIBE(DESCRIBED_SNAPSHOT);
