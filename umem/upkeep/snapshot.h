/* snapshot.h - copies of the process for the command umem; see snapshot.c */
#ifndef UMEM_SNAPSHOT_H
#define UMEM_SNAPSHOT_H

#include "vmem/base.h"

/* How long the upkeep thread, and a thread of the program, wait for umem. */
#define SNAPSHOT_THREAD_NS 250000000
#define SNAPSHOT_CALLER_NS 50000000

/*
 * Tells the command umem of an upkeep thread, which waits on the futex word
 * sleeps_on and wakes if that is waking.
 */
void snapshot_served_by(uint32_t *sleeps_on, uint32_t waking);

/*
 * Makes a copy of the process if the command umem has asked for one, and waits
 * for the command at most wait_ns nanoseconds.  Releases the last copy if it
 * has ended.  The caller holds no lock.  Returns true while a copy exists.
 */
bool snapshot_serve(uint64_t wait_ns);

/* In the child of fork(): the request and the copy are the parent's. */
void snapshot_after_fork(void);

#endif
