/* quiet.h - will the program want what it has freed? see quiet.c */
#ifndef UMEM_QUIET_H
#define UMEM_QUIET_H

#include "vmem/base.h"

/* A slow path that looked at the clock. */
void quiet_ends(uint64_t now_ns);

/* The program has not been in a slow path for long. */
bool quiet_by_time(uint64_t now_ns);

/* So many bytes of the heap are free, of those in use, that it matters. */
bool quiet_is_urgent(size_t dirty, size_t used);

/* At each tick, urgent as above: the program has no use for what is free. */
bool quiet_by_calls(uint64_t now_ns, bool urgent);

/*
 * quiet_by_calls() was believed, and the pages that were free go back; then,
 * now and again: how much fresh memory the heap has handed out, ever.
 */
void quiet_believed(uint64_t now_ns, size_t dirty, size_t fresh);
void quiet_grew(uint64_t now_ns, size_t fresh);

void quiet_after_fork(void);

#endif
