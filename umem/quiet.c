/*
 * quiet.c - will the program want what it has freed?
 *
 * A program whose magazines do for all it wants comes to the slow paths for
 * ticks alone: then it is quiet, and all that lies free may go back.
 *
 * By time	no slow path for QUIET_NS.
 * By calls	no slow path between some ticks in a row, not even for an
 *		exchange of magazines, while more lies free than is in use, and
 *		as many rounds in the magazines at the last as at the one
 *		before: as much allocated as freed, so neither filling nor
 *		still freeing.  That is much sooner: a program that has freed
 *		what it had may end its calls there, and would keep it all.
 *
 * Regret
 *	The end of one phase looks like the end of all for a moment.  So an
 *	answer by calls is judged: if the heap has taken half of those pages
 *	back within REGRET_NS, which is when they would have gone anyway, the
 *	program pays for them twice.  Then it is not asked again for a while,
 *	twice as long each time; an answer that proves right halves the while.
 *	A program that goes up and down for an hour has paid some ten times.
 *
 * Locking: none.  Words are atomic each; threads that meet here at worst take
 * two ticks for one, miss an exchange that was just under way, or judge an
 * answer twice.  A wrong answer costs page faults, and is regretted.
 */
#include <sys/types.h>

#include "magazine/cpu.h"
#include "magazine/magazine.h"
#include "umem/quiet.h"

/* Without a slow path for so long, or for so many ticks in a row. */
#define QUIET_NS    500000000
#define QUIET_TICKS 2
/* Rounds that may have come or gone between the last two. */
#define STEADY      16
/* Less than this goes back by time soon enough. */
#define URGENT      (16 * MIB)
#define REGRET_NS   ((uint64_t)1000000000)
#define PAUSE_MOST  (512 * REGRET_NS)

static uint64_t active_ns;   /* [a] last slow path that read the clock */
static uint32_t active;      /* [a] 1: one since the last tick */
static uint32_t nquiet;      /* [a] ticks in a row without */
static size_t rounds;        /* [a] at the last of them */
static unsigned cpu;         /* [a] of the last of them */
static uint64_t believed_ns; /* [a] the answer to judge, 0: none */
static size_t half_back_at;  /* [a] fresh memory that makes it wrong */
static uint64_t pause_ns;    /* [a] after a wrong answer */
static uint64_t ask_from_ns; /* [a] */

void
quiet_ends(uint64_t now_ns)
{
	/* The clock is coarse, and the lines are everybody's. */
	if (__atomic_load_n(&active, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&active, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&active_ns, __ATOMIC_RELAXED) != now_ns)
		__atomic_store_n(&active_ns, now_ns, __ATOMIC_RELAXED);
}

/* Signed: somebody may have been active since now was read. */
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

/* Since the last look, which is this one from now on. */
static bool
is_steady(void)
{
	unsigned on;
	size_t n = cpu_glance_all(&on);
	size_t had = __atomic_exchange_n(&rounds, n, __ATOMIC_RELAXED);
	unsigned was_on = __atomic_exchange_n(&cpu, on, __ATOMIC_RELAXED);

	return was_on == on && n - had + STEADY <= 2 * STEADY;
}

/* The answer was right unless it is too early to say. */
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

/* Has anything been wanted since this was last asked? */
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
