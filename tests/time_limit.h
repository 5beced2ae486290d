/*
 * time_limit.h - the limit of a test that may hang
 *
 * It only ends a test that would never end: nothing is measured by it, and a
 * busy machine must not reach it.
 */
#ifndef TESTS_TIME_LIMIT_H
#define TESTS_TIME_LIMIT_H

#include <stdlib.h>
#include <unistd.h>

/* Seconds; TEST_TIME_FACTOR is explained in run_tests.sh. */
static inline unsigned
time_limit(void)
{
	const char *factor = getenv("TEST_TIME_FACTOR");

	return 300 * (factor == NULL ? 1 : (unsigned)atoi(factor));
}

/* Until the condition holds, or the limit is over. */
#define wait_until(condition)                                                  \
	for (unsigned waited = 0; !(condition) && waited / 200 < time_limit(); \
	     waited++)                                                         \
	usleep(5000)

/* SIGALRM ends this process when it has hung for so long. */
static inline void
limit_time(void)
{
	alarm(time_limit());
}

#endif
