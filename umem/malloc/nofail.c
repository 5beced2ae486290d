/*
 * nofail.c - UMEM_NOFAIL requests, and failures injected for tests
 *
 * A UMEM_NOFAIL request that finds no memory calls the program's callback, with
 * no lock held.  The callback decides: try again, or exit with a status.  The
 * process calls exit() only once: a second thread that comes here waits for the
 * end of the process.  An exit handler that comes here again is a programming
 * error, and ends in abort().
 *
 * mtbf ("mean time between failures") makes one in that many requests fail, at
 * random, so that no loop of the program is always spared or always hit.
 *
 * Source: umem_alloc(3MALLOC), umem_setmtbf of illumos.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "umem/malloc/alloc.h"
#include "umem/debug/audit.h"
#include "umem/debug/debug.h"
#include "umem/base/random.h"
#include "umem/base/ready.h"
#include "umem/malloc/nofail.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* A callback returns this bit, with the exit status in the low byte. */
#define EXIT_BIT    0x100
#define EXIT_FAILED 255

static umem_nofail_callback_t *callback; /* [a] */
static uint32_t exiting_id;      /* [a] thread that is in exit(), or 0 */
static pthread_t exiting_thread; /* pthread_self() of that thread */

/*
 * This process was forked while another thread of its parent was in exit().
 * Because glibc 2.41 holds a lock during exit(), and no thread of the child
 * releases it, exit() would wait for ever here.
 */
static bool exit_blocked;

uint32_t mtbf_interval;
static struct random mtbf_random; /* not seeded: a run can be repeated */

static _Noreturn void
nofail_exit_once(int status)
{
	uint32_t me = os_thread_id();
	uint32_t none = 0;

	umem_assert((status & ~0xff) == 0);
	umem_assert(me != 0);
	if (__atomic_compare_exchange_n(&exiting_id, &none, me, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		if (exit_blocked)
			_exit(status);
		exiting_thread = pthread_self();
		/* One thread.  NOLINTNEXTLINE(concurrency-mt-unsafe) */
		exit(status);
	}
	if (none == me)
		panic("recursive UMEM_CALLBACK_EXIT()");
	for (;;)
		os_futex_wait(&exiting_id, none, 0);
}

start_path void
nofail_after_fork(void)
{
	if (exiting_id == 0)
		return;
	/*
	 * A thread keeps its pthread_self() in the child, but not its thread
	 * id.
	 */
	if (!pthread_equal(exiting_thread, pthread_self()))
		exit_blocked = true;
	exiting_id = 0;
}

bool
nofail_retry(int flags)
{
	umem_nofail_callback_t *function;
	int answer;

	if ((flags & UMEM_NOFAIL) == 0)
		return false;
	function = load_acquire(&callback);
	if (function == NULL)
		nofail_exit_once(EXIT_FAILED);
	answer = function();
	if (answer == UMEM_CALLBACK_RETRY)
		return true;
	if ((answer & ~0xff) == EXIT_BIT)
		nofail_exit_once(answer & 0xff);
	message_line("nofail callback returned %x", (unsigned)answer);
	nofail_exit_once(EXIT_FAILED);
}

public void
umem_nofail_callback(umem_nofail_callback_t *function)
{
	store_release(&callback, function);
}

bool
mtbf_draw_failure(umem_cache_t *cache, size_t size)
{
	uint32_t n = load_relaxed(&mtbf_interval);

	if (n == 0 || random_below(&mtbf_random, n) != 0)
		return false;
	audit_event(LOG_FAIL, cache, /* slab */ NULL, /* addr */ NULL, size);
	errno = ENOMEM;
	return true;
}

public void
umem_setmtbf(uint32_t mtbf)
{
	if (!umem_ready())
		return;
	__atomic_store_n(&mtbf_interval, mtbf, __ATOMIC_SEQ_CST);
	alloc_choose_paths();
}
