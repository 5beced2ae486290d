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

/* What UMEM_OPTIONS asks for, before the library is started. */
extern enum update_thread update_thread_wanted;

/*
 * For thread.c.  A good place to create the thread; threads: the
 * program has created one.  And: a thread of the program is about to begin,
 * and has ended but for its return to libc.
 */
void update_thread_offer(bool threads);
void update_thread_begins(void);
void update_thread_ends(void);

/* Is the calling thread one that update_thread_ends() will be called for? */
extern bool (*update_thread_counted)(void);

extern int (*update_thread_create)(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Is there one, for the work that is to be done? */
bool update_has_thread(void);

/* It works at once; or when it would, if it is not asleep. */
void update_thread_wake(void);
void update_thread_rouse(void);

/* In the child of fork() there is none, and one thread of the program or none. */
void update_thread_after_fork(bool counted);

#endif
