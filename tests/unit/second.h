/* second.h - a second thread, for code that does less with one thread */
#ifndef TESTS_UNIT_SECOND_H
#define TESTS_UNIT_SECOND_H

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static inline void *
second_run(void *has_begun)
{
	sem_post(has_begun);
#ifndef __SANITIZE_THREAD__
	for (;;)
		pause();
#endif
	return NULL;
}

/*
 * Makes the process multi-threaded until its end.  The thread sanitizer takes a
 * thread of a forked child for one that its parent had, so the second thread
 * ends there; it counts nevertheless from glibc 2.32 on.
 *     The thread runs when this returns: at its start the address sanitizer
 * holds a lock that a child of fork() would keep.
 */
static inline void
second_start(void)
{
	static sem_t has_begun;
	pthread_t thread;

	ck_assert_int_eq(sem_init(&has_begun, 0, 0), 0);
	ck_assert_int_eq(
	    pthread_create(&thread, NULL, second_run, &has_begun), 0);
	while (sem_wait(&has_begun) != 0)
		;
#ifdef __SANITIZE_THREAD__
	pthread_join(thread, NULL);
#endif
}

#endif
