/*
 * pressure.c - the memory pressure that the kernel reports
 *
 * Option memory_pressure.  Each update reads how long threads have waited for
 * memory: those of the process's cgroup, or of the machine if the group has no
 * such file.  Each STEP_PERCENT of the time since the last update is one step
 * of pressure (reclaim.c).  At the most pressure, a little less than the memory
 * that the heap has is the soft limit until the next update (soft_limit.c).  So
 * each update releases some of the idle memory, and asks the program for memory
 * last.
 *
 * Nothing watches the kernel between updates: no thread, and no descriptor that
 * a program could close.  But each update opens files, and takes the lowest
 * descriptor for a moment.  In a program that closes a descriptor and relies on
 * getting the same number next, or whose filter of system calls forbids open(),
 * this does harm.  Therefore the option is off by default.
 *
 * Source: the kernel's Documentation/accounting/psi.rst.
 */
#include "umem/base/cgroup.h"
#include "umem/upkeep/pressure.h"
#include "umem/upkeep/reclaim.h"
#include "umem/upkeep/soft_limit.h"
#include "umem/cache/worker.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* 6 % of the time is the most pressure. */
#define STEP_PERCENT 2
/* Readings at shorter distances say little: the kernel's clock is coarse. */
#define READ_NS      ((uint64_t)100000000)

bool pressure_is_watched seldom_used; /* [a] */

static unsigned level seldom_used;      /* [a] */
static uint64_t read_ns seldom_used;    /* [worker] 0: no reading yet */
static uint64_t stalled_us seldom_used; /* [worker] at the last reading */

unsigned
pressure_level(void)
{
	return load_relaxed(&level);
}

static unsigned
level_of(uint64_t stalled_ns, uint64_t elapsed_ns)
{
	uint64_t nsteps = stalled_ns / (elapsed_ns * STEP_PERCENT / 100);

	return nsteps < RECLAIM_PRESSURE_MAX ? (unsigned)nsteps
					     : RECLAIM_PRESSURE_MAX;
}

static void
level_set(unsigned now)
{
	store_relaxed(&level, now);
	soft_limit_under_pressure(now == RECLAIM_PRESSURE_MAX);
}

void
pressure_read(uint64_t now_ns)
{
	uint64_t total, before = stalled_us, elapsed = now_ns - read_ns;

	umem_assert(worker_is_self());
	if (likely(!load_relaxed(&pressure_is_watched)) || os_is_confined()) {
		/* No write if the option was never on: the page stays clean. */
		if (read_ns != 0) {
			read_ns = 0;
			level_set(0);
		}
		return;
	}
	if (elapsed < READ_NS || !cgroup_memory_stalls(&total))
		return;
	/* The process may have moved to another group. */
	level_set(read_ns == 0 || total < before
		      ? 0
		      : level_of((total - before) * 1000, elapsed));
	stalled_us = total;
	read_ns = now_ns;
}
