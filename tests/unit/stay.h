/* stay.h - keeps the calling thread on its current CPU */
#ifndef TESTS_UNIT_STAY_H
#define TESTS_UNIT_STAY_H

#include <check.h>
#include <sched.h>

#include "vmem/os.h"

/*
 * Pins the thread to one CPU, so that both numbers by which sections index stay
 * constant.
 */
static inline void
stay_here(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(os_cpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Restricts the calling thread, and the threads it creates, to ncpus CPUs. */
static inline void
stay_on(int ncpus)
{
	cpu_set_t all, some;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&some);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < ncpus; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &some);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(some), &some), 0);
}

#endif
