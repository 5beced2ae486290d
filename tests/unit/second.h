/* second.h - a second thread, for code that does less with one thread */
#ifndef TESTS_UNIT_SECOND_H
#define TESTS_UNIT_SECOND_H

#include <check.h>
#include <pthread.h>
#include <unistd.h>

static inline void *
second_run(void *arg)
{
#ifndef __SANITIZE_THREAD__
	for (;;)
		pause();
#endif
	return arg;
}

/*
 * Makes the process multi-threaded until its end.  The thread sanitizer takes a
 * thread of a forked child for one that its parent had, so the second thread
 * ends there; it counts nevertheless from glibc 2.32 on.
 */
static inline void
second_start(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, second_run, NULL), 0);
#ifdef __SANITIZE_THREAD__
	pthread_join(thread, NULL);
#endif
}

#endif
