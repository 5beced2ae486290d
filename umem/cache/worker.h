/*
 * worker.h - the worker: the one thread that does maintenance on the caches;
 * see worker.c
 */
#ifndef UMEM_WORKER_H
#define UMEM_WORKER_H

#include "vmem/base.h"

/*
 * Makes the calling thread the worker.  Returns false if another thread, or the
 * caller itself, is the worker already.
 */
bool worker_begin(void);

/* Ends the calling thread's turn as the worker, if it has one. */
void worker_end(void);

/* Is the calling thread the worker? */
bool worker_is_self(void);

/*
 * Waits until the present worker ends its turn, at most most_ns nanoseconds.
 * Returns whether it has ended; false, without waiting, if the caller is the
 * worker.
 */
bool worker_await(uint64_t most_ns);

/* In the child of fork(): there is no worker. */
void worker_after_fork(void);

#endif
