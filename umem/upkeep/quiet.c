/*
 * quiet.c - detects an idle program, which needs no more of its free memory
 *
 * If every call is served from magazines, the slow paths are called for ticks
 * only (see update.c).  Then the program is idle ("quiet" in identifiers), and
 * all free memory may be released.
 *
 * Idle by time
 *	No slow path other than ticks for QUIET_NS.
 *
 * Idle by calls
 *	No slow path between several ticks in a row, not even for an exchange of
 *	magazines, while more memory is dirty than in use, and the magazines
 *	have as many rounds at the last tick as at the one before.  An equal
 *	number of rounds means that the program allocates as much as it frees,
 *	so it is neither growing nor still freeing.  This is found much sooner
 *	than by time.  Otherwise a program that frees its memory and makes no
 *	further call would keep all of it.
 *
 * Feedback
 *	For a moment, the end of one phase looks like the end of all activity.
 *	So idle by calls is a prediction, and each prediction is checked: if the
 *	heap has taken half of the released pages back within REGRET_NS, the
 *	time after which they would have been released anyway, the program pays
 *	for them twice, and the prediction was wrong.  Then no prediction is
 *	made for a pause, which doubles with each wrong prediction; a correct
 *	one halves it.  A program that grows and shrinks for an hour pays about
 *	ten times.
 *
 * Locking: none.  Each word is atomic.  Threads that race here can at worst
 * count two ticks as one, miss an exchange that was under way, or check a
 * prediction twice.  A wrong prediction costs page faults, and is corrected by
 * the pause.
 */
#include <sys/types.h>

#include "magazine/cpu.h"
#include "magazine/magazine.h"
#include "umem/upkeep/quiet.h"

/* The time, and the number of ticks in a row, without a slow path. */
#define QUIET_NS    500000000
#define QUIET_TICKS 2
/* By how many rounds the magazines may differ between the last two ticks. */
#define STEADY      16
/* If less than this is dirty, the release by time is soon enough. */
#define URGENT      (16 * MIB)
#define REGRET_NS   ((uint64_t)1000000000)
#define PAUSE_MOST  (512 * REGRET_NS)

static uint64_t active_ns;   /* [a] last slow path that read the clock */
static uint32_t active;      /* [a] 1: a slow path since the last tick */
static uint32_t nquiet;      /* [a] ticks in a row without a slow path */
static size_t rounds;        /* [a] in magazines at the last of these */
static unsigned cpu;         /* [a] of the last of these ticks */
static uint64_t believed_ns; /* [a] time of the prediction to check; 0: none */
static size_t half_back_at;  /* [a] heap_fresh() that proves it wrong */
static uint64_t pause_ns;    /* [a] pause after a wrong prediction */
static uint64_t ask_from_ns; /* [a] end of the pause */

void
quiet_ends(uint64_t now_ns)
{
	/*
	 * Each word is written only if it changes: the clock is coarse, and all
	 * threads share the cache lines.
	 */
	if (__atomic_load_n(&active, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&active, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&active_ns, __ATOMIC_RELAXED) != now_ns)
		__atomic_store_n(&active_ns, now_ns, __ATOMIC_RELAXED);
}

/*
 * The difference is signed because another thread may have stored a later time
 * since the caller read the clock.
 */
bool
quiet_by_time(uint64_t now_ns)
{
	uint64_t last = __atomic_load_n(&active_ns, __ATOMIC_RELAXED);

	return (int64_t)(now_ns - last) > QUIET_NS;
}

bool
quiet_is_urgent(size_t dirty, size_t used)
{
	return dirty >= URGENT && dirty >= used;
}

/*
 * Has the number of rounds in the magazines stayed about equal since the last
 * call, on one CPU?  Stores the number for the next call.
 */
static bool
is_steady(void)
{
	unsigned on;
	size_t n = cpu_glance_all(&on);
	size_t had = __atomic_exchange_n(&rounds, n, __ATOMIC_RELAXED);
	unsigned was_on = __atomic_exchange_n(&cpu, on, __ATOMIC_RELAXED);

	return was_on == on && n - had + STEADY <= 2 * STEADY;
}

/* Counts the prediction as correct if REGRET_NS have passed since it. */
static void
judge(uint64_t now_ns)
{
	uint64_t then = __atomic_load_n(&believed_ns, __ATOMIC_RELAXED);
	uint64_t pause = __atomic_load_n(&pause_ns, __ATOMIC_RELAXED);

	if (then == 0 || (int64_t)(now_ns - then) <= (int64_t)REGRET_NS)
		return;
	__atomic_store_n(&believed_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pause_ns, pause / 2, __ATOMIC_RELAXED);
}

/* Was there a slow path or an exchange of magazines since the last call? */
static bool
was_active(void)
{
	uint32_t slow = __atomic_exchange_n(&active, 0, __ATOMIC_RELAXED);

	return (__atomic_exchange_n(&magazine_exchanged, 0, __ATOMIC_RELAXED) |
		   slow) != 0;
}

bool
quiet_by_calls(uint64_t now_ns, bool urgent)
{
	uint32_t n = __atomic_load_n(&nquiet, __ATOMIC_RELAXED);
	bool steady = false;

	if (was_active() || !urgent)
		n = 0;
	else if ((steady = is_steady()) || n == 0)
		n++;
	__atomic_store_n(&nquiet, n, __ATOMIC_RELAXED);
	judge(now_ns);
	return steady && n >= QUIET_TICKS &&
	       now_ns >= __atomic_load_n(&ask_from_ns, __ATOMIC_RELAXED);
}

void
quiet_believed(uint64_t now_ns, size_t dirty, size_t fresh)
{
	__atomic_store_n(&half_back_at, fresh + dirty / 2, __ATOMIC_RELAXED);
	__atomic_store_n(&believed_ns, now_ns, __ATOMIC_RELAXED);
}

void
quiet_grew(uint64_t now_ns, size_t fresh)
{
	uint64_t then = __atomic_load_n(&believed_ns, __ATOMIC_RELAXED);
	uint64_t pause = __atomic_load_n(&pause_ns, __ATOMIC_RELAXED);
	size_t limit = __atomic_load_n(&half_back_at, __ATOMIC_RELAXED);

	judge(now_ns);
	if (then == 0 || (int64_t)(now_ns - then) > (int64_t)REGRET_NS ||
	    (ssize_t)(fresh - limit) < 0)
		return;
	pause = pause < REGRET_NS / 2 ? REGRET_NS : 2 * pause;
	if (pause > PAUSE_MOST)
		pause = PAUSE_MOST;
	__atomic_store_n(&believed_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pause_ns, pause, __ATOMIC_RELAXED);
	__atomic_store_n(&ask_from_ns, now_ns + pause, __ATOMIC_RELAXED);
}

void
quiet_after_fork(void)
{
	active = 1;
	nquiet = 0;
	believed_ns = 0;
}
