/* snapshot.h - copies of the process for the command umem; see snapshot.c */
#ifndef UMEM_SNAPSHOT_H
#define UMEM_SNAPSHOT_H

#include "vmem/base.h"

/*
 * How long the upkeep thread waits for the command, which may have ended: one
 * update is late by as much.
 */
#define SNAPSHOT_WAIT_NS 250000000

/*
 * Tells the command umem of the upkeep thread, which waits on the futex word
 * sleeps_on and wakes if that is waking.
 */
void snapshot_served_by(uint32_t *sleeps_on, uint32_t waking);

/*
 * Called by the upkeep thread, which holds no lock.  Makes a copy of the
 * process if the command umem has asked for one, and waits for the command at
 * most wait_ns nanoseconds.  Releases the last copy if it has ended.  Returns
 * true while a copy exists.
 */
bool snapshot_serve(uint64_t wait_ns);

/*
 * Releases the last copy if it has ended, for a process without upkeep thread.
 */
void snapshot_reap(void);

/*
 * In the child of fork(): the request, the copy and the upkeep thread are the
 * parent's.
 */
void snapshot_after_fork(void);

#endif
