/*
 * quiet.h - detects an idle program, which needs no more of its free memory;
 * see quiet.c
 */
#ifndef UMEM_QUIET_H
#define UMEM_QUIET_H

#include "vmem/base.h"

/* Notes that a slow path has read the clock: the program is not idle. */
void quiet_ends(uint64_t now_ns);

/* Has the program been in no slow path for QUIET_NS? */
bool quiet_by_time(uint64_t now_ns);

/*
 * Are the dirty bytes many, and no fewer than the used bytes, so that an early
 * release matters?
 */
bool quiet_is_urgent(size_t dirty, size_t used);

/*
 * Called at each tick.  urgent is the answer of quiet_is_urgent().  Returns
 * true if the program is predicted to need none of its free memory.
 */
bool quiet_by_calls(uint64_t now_ns, bool urgent);

/*
 * Feedback for the prediction of quiet_by_calls().  quiet_believed() says that
 * the prediction was acted on: dirty bytes of free pages go back.  quiet_grew()
 * is called when the heap has grown.  fresh is heap_fresh(), the cumulative
 * bytes that the heap has allocated of memory never used before.
 */
void quiet_believed(uint64_t now_ns, size_t dirty, size_t fresh);
void quiet_grew(uint64_t now_ns, size_t fresh);

/*
 * In the child of fork(): forgets the ticks and the prediction of the parent.
 */
void quiet_after_fork(void);

#endif
