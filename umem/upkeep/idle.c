/*
 * idle.c - detects an idle program, which needs no more of its free memory
 *
 * If every call is served from magazines, the slow paths are called for ticks
 * only (see update.c).  Then the program is idle, and
 * all free memory may be released.
 *
 * Idle by time
 *	No slow path other than ticks for IDLE_NS.
 *
 * Idle by push count
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
 *	So idle by push count is a prediction, and each prediction is checked:
 *	if the heap has taken half of the released pages back within
 *	FEEDBACK_NS, the time after which they would have been released anyway,
 *	the program pays for them twice, and the prediction was wrong.  Then no
 *	prediction is made for a pause (the back-off), which doubles with each
 *	wrong prediction; a correct one halves it.  A program that grows and
 *	shrinks for an hour pays about ten times.
 *
 * Locking: none.  Each word is atomic.  Threads that race here can at worst
 * count two ticks as one, miss an exchange that was under way, or check a
 * prediction twice.  A wrong prediction costs page faults, and is corrected by
 * the pause.
 */
#include <assert.h>
#include <sys/types.h>

#include "magazine/cpu.h"
#include "magazine/magazine.h"
#include "umem/upkeep/idle.h"

/* The time, and the number of ticks in a row, without a slow path. */
#define IDLE_NS         500000000
#define IDLE_TICKS      2
/* By how many rounds the magazines may differ between the last two ticks. */
#define STEADY_ROUNDS   16
/* If less than this is dirty, the release by time is soon enough. */
#define PRESSURE_BYTES  (16 * MIB)
#define FEEDBACK_NS     ((uint64_t)1000000000)
#define BACKOFF_MOST_NS (512 * FEEDBACK_NS)

static_assert(BACKOFF_MOST_NS <= INT64_MAX && IDLE_NS <= INT64_MAX,
    "differences of times are signed");
static_assert(IDLE_TICKS >= 2, "two ticks tell whether rounds are steady");

static uint64_t active_ns;     /* [a] last slow path that read the clock */
static uint32_t was_slow_path; /* [a] 1: a slow path since the last tick */
static uint32_t nidle_ticks;   /* [a] ticks in a row without a slow path */
static size_t rounds;          /* [a] in magazines at the last of these */
static unsigned cpu;           /* [a] of the last of these ticks */
static uint64_t predicted_ns; /* [a] time of the prediction to check; 0: none */
static size_t
    misprediction_fresh; /* [a] heap_allocated_clean() that proves it wrong */
static uint64_t backoff_ns;      /* [a] pause after a wrong prediction */
static uint64_t predict_from_ns; /* [a] end of the pause */

void
idle_note_activity(uint64_t now_ns)
{
	/*
	 * Each word is written only if it changes: the clock is coarse, and all
	 * threads share the cache lines.
	 */
	if (__atomic_load_n(&was_slow_path, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&was_slow_path, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&active_ns, __ATOMIC_RELAXED) != now_ns)
		__atomic_store_n(&active_ns, now_ns, __ATOMIC_RELAXED);
}

/*
 * The difference is signed because another thread may have stored a later time
 * since the caller read the clock.
 */
bool
idle_by_time(uint64_t now_ns)
{
	uint64_t last = __atomic_load_n(&active_ns, __ATOMIC_RELAXED);

	return (int64_t)(now_ns - last) > IDLE_NS;
}

bool
idle_has_pressure(size_t dirty, size_t used)
{
	return dirty >= PRESSURE_BYTES && dirty >= used;
}

/*
 * Has the number of rounds in the magazines stayed about equal since the last
 * call, on one CPU?  Stores the number for the next call.
 */
static bool
rounds_are_steady(void)
{
	unsigned now_cpu;
	size_t n = cpu_rounds_estimate_all(&now_cpu);
	size_t before = __atomic_exchange_n(&rounds, n, __ATOMIC_RELAXED);
	unsigned before_cpu =
	    __atomic_exchange_n(&cpu, now_cpu, __ATOMIC_RELAXED);

	return before_cpu == now_cpu &&
	       n - before + STEADY_ROUNDS <= 2 * STEADY_ROUNDS;
}

/* Counts the prediction as correct if FEEDBACK_NS have passed since it. */
static void
prediction_confirm(uint64_t now_ns)
{
	uint64_t made_ns = __atomic_load_n(&predicted_ns, __ATOMIC_RELAXED);
	uint64_t backoff = __atomic_load_n(&backoff_ns, __ATOMIC_RELAXED);

	if (made_ns == 0 || (int64_t)(now_ns - made_ns) <= (int64_t)FEEDBACK_NS)
		return;
	__atomic_store_n(&predicted_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&backoff_ns, backoff / 2, __ATOMIC_RELAXED);
}

/* Was there a slow path or an exchange of magazines since the last call? */
static bool
activity_take(void)
{
	uint32_t slow =
	    __atomic_exchange_n(&was_slow_path, 0, __ATOMIC_RELAXED);

	return (__atomic_exchange_n(&magazine_exchanged, 0, __ATOMIC_RELAXED) |
		   slow) != 0;
}

bool
idle_by_push_count(uint64_t now_ns, bool pressure)
{
	uint32_t n = __atomic_load_n(&nidle_ticks, __ATOMIC_RELAXED);
	bool is_steady = false;

	if (activity_take() || !pressure)
		n = 0;
	else if ((is_steady = rounds_are_steady()) || n == 0)
		n++;
	__atomic_store_n(&nidle_ticks, n, __ATOMIC_RELAXED);
	prediction_confirm(now_ns);
	return is_steady && n >= IDLE_TICKS &&
	       now_ns >= __atomic_load_n(&predict_from_ns, __ATOMIC_RELAXED);
}

void
idle_predicted(uint64_t now_ns, size_t dirty, size_t fresh)
{
	__atomic_store_n(
	    &misprediction_fresh, fresh + dirty / 2, __ATOMIC_RELAXED);
	__atomic_store_n(&predicted_ns, now_ns, __ATOMIC_RELAXED);
}

void
idle_heap_grew(uint64_t now_ns, size_t fresh)
{
	uint64_t made_ns = __atomic_load_n(&predicted_ns, __ATOMIC_RELAXED);
	uint64_t backoff = __atomic_load_n(&backoff_ns, __ATOMIC_RELAXED);
	size_t limit = __atomic_load_n(&misprediction_fresh, __ATOMIC_RELAXED);

	prediction_confirm(now_ns);
	if (made_ns == 0 ||
	    (int64_t)(now_ns - made_ns) > (int64_t)FEEDBACK_NS ||
	    (ssize_t)(fresh - limit) < 0)
		return;
	backoff = backoff < FEEDBACK_NS / 2 ? FEEDBACK_NS : 2 * backoff;
	if (backoff > BACKOFF_MOST_NS)
		backoff = BACKOFF_MOST_NS;
	__atomic_store_n(&predicted_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&backoff_ns, backoff, __ATOMIC_RELAXED);
	__atomic_store_n(&predict_from_ns, now_ns + backoff, __ATOMIC_RELAXED);
}

void
idle_after_fork(void)
{
	was_slow_path = 1;
	nidle_ticks = 0;
	predicted_ns = 0;
}
