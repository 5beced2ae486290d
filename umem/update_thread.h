/* update_thread.h - the thread that does upkeep; see update_thread.c */
#ifndef UMEM_UPDATE_THREAD_H
#define UMEM_UPDATE_THREAD_H

#include <pthread.h>

#include "vmem/base.h"

enum update_thread {
	THREAD_AUTO,
	THREAD_YES,
	THREAD_NO
};

/* Set by UMEM_OPTIONS before the library is started. */
extern enum update_thread update_thread_wanted;

/*
 * Creates or ends the thread, as it is wanted now.  The caller holds no lock of
 * libc.  created: the program has created a thread, so the library starts if it
 * has not; otherwise it starts if UMEM_OPTIONS asks for something.
 */
void update_thread_offer(bool created);

/*
 * A thread of the program is about to begin; has ended but for its return to
 * libc.  The latter may end the upkeep thread, and then waits for it.
 */
void update_thread_begins(void);
void update_thread_ends(void);

/*
 * Waits until the upkeep thread, if there is one, has made the system calls by
 * which libc begins a thread, a second at most.
 */
void update_thread_await(void);

/* Is the calling thread one that update_thread_ends() will be called for? */
extern bool (*update_thread_counted)(void);

extern int (*update_thread_create)(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Is there one, for the work that is to be done? */
bool update_has_thread(void);

/* The thread works at once. */
void update_thread_wake(void);

/* As update_thread_wake(), if the thread is asleep. */
void update_thread_rouse(void);

/*
 * Around the work on one cache, by the thread at work (worker.h).  calls: the
 * work may call functions of the program.  False: the calling thread is the
 * upkeep thread and has been told to end, so it leaves the cache alone.
 */
bool update_thread_enters(bool calls);
void update_thread_leaves(void);

/*
 * In the child of fork() there is no upkeep thread, and one thread of the
 * program, or none that is counted.
 */
void update_thread_after_fork(bool counted);

#endif
