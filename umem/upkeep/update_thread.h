/* update_thread.h - the upkeep thread; see update_thread.c */
#ifndef UMEM_UPDATE_THREAD_H
#define UMEM_UPDATE_THREAD_H

#include <pthread.h>

#include "vmem/base.h"

enum update_thread {
	THREAD_AUTO,
	THREAD_YES,
	THREAD_NO
};

/*
 * Whether to have an upkeep thread.  UMEM_OPTIONS may set it before the library
 * starts.
 */
extern hidden enum update_thread update_thread_wanted;

/*
 * Creates or ends the upkeep thread, according to the number of threads of the
 * program.  The caller holds no lock of libc.  created: the program has created
 * a thread, so the library starts if it has not.  Otherwise the library starts
 * only if UMEM_OPTIONS asks for something.
 */
void update_thread_offer(bool created);

/*
 * update_thread_begins() is called before a thread of the program starts,
 * update_thread_ends() when it has ended, just before it returns to libc.  The
 * latter may end the upkeep thread, and then waits for it.
 */
void update_thread_begins(void);
void update_thread_ends(void);

/*
 * Ends the upkeep thread, if there is one, to make room for a thread of the
 * program that has called update_thread_begins().  Returns false if there was
 * none.  It comes back, if it can, in update_thread_offer() or
 * update_thread_ends(), one of which the caller calls next.
 */
bool update_thread_give_way(void);

/*
 * Ends an upkeep thread that stays although the program has one thread, before
 * a call that asks for a process with one task or confines the process.
 * Returns false if there was none.
 */
bool update_thread_end_now(void);

/*
 * Waits, for a second at most, until the upkeep thread, if there is one, has
 * made the system calls by which libc starts a thread.
 */
void update_thread_await(void);

/*
 * Functions of the library that has a pthread_create() (thread.c); NULL in the
 * other one.
 */
extern hidden const struct update_threads {
	/* Will update_thread_ends() be called for the calling thread? */
	bool (*is_counted)(void);
	/* The next definition of pthread_create(). */
	int (*create_next)(pthread_t *thread, const pthread_attr_t *attr,
	    void *(*run)(void *), void *arg);
} update_threads;

/*
 * Creates a thread of the library, which calls update_thread_begin() first; see
 * update_thread.c for its attributes.  Returns false if that is not possible.
 * The caller holds no lock.
 */
bool update_thread_create(
    pthread_t *created, bool detached, void *(*run)(void *), void *arg);
void update_thread_begin(const char *name);

/* Is there an upkeep thread to do the work? */
bool update_has_thread(void);

/* Makes the upkeep thread work at once. */
void update_thread_wake(void);

/* Wakes the upkeep thread if it is asleep. */
void update_thread_wake_if_asleep(void);

/*
 * The worker (worker.h) calls these two around its work on one cache.
 * calls_program: the work may call functions of the program.
 * update_thread_enter() returns false if the calling thread is the upkeep
 * thread and has been told to end.  Then the caller leaves the cache alone.
 */
bool update_thread_enter(bool calls_program);
void update_thread_leave(void);

/*
 * In the child of fork(): there is no upkeep thread.  counted: the program has
 * one thread that is counted.  Otherwise it has none.
 */
void update_thread_after_fork(bool counted);

#endif
