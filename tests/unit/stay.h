/* stay.h - the calling thread stays on the CPU that it is on */
#ifndef TESTS_UNIT_STAY_H
#define TESTS_UNIT_STAY_H

#include <check.h>
#include <sched.h>

#include "vmem/os.h"

/* One CPU, where both numbers that sections index by stay the same. */
static inline void
stay_here(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(os_cpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

#endif
