/*
 * idle.h - detects an idle program, which needs no more of its free memory;
 * see idle.c
 */
#ifndef UMEM_IDLE_H
#define UMEM_IDLE_H

#include "vmem/base.h"

/* Notes that a slow path has read the clock: the program is not idle. */
void idle_note_activity(uint64_t now_ns);

/* Has the program been in no slow path for age_ns? */
bool idle_by_time(uint64_t now_ns, uint64_t age_ns);

/*
 * Called at each tick.  pressure says that memory is under the most pressure,
 * so that an early release matters.  Returns true if the program is predicted
 * to need none of its free memory.
 */
bool idle_by_push_count(uint64_t now_ns, bool pressure);

/*
 * Feedback for the prediction of idle_by_push_count().  idle_predicted() says
 * that the prediction was acted on: dirty bytes of free pages go back.
 * idle_heap_grew() is called when the heap has grown.  fresh is
 * heap_allocated_clean(): the cumulative bytes of clean memory that the heap
 * has allocated.
 */
void idle_predicted(uint64_t now_ns, size_t dirty, size_t fresh);
void idle_heap_grew(uint64_t now_ns, size_t fresh);

/*
 * In the child of fork(): forgets the ticks and the prediction of the parent.
 */
void idle_after_fork(void);

#endif
