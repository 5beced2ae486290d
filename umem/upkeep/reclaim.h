/*
 * reclaim.h - reclaims cached memory when the heap grows or is asked for much;
 * see reclaim.c
 */
#ifndef UMEM_RECLAIM_H
#define UMEM_RECLAIM_H

#include <stddef.h>
#include <stdint.h>

/* [a] heap_allocated_total() below which reclaim_check() finds no work. */
extern size_t reclaim_at;

/*
 * Reclaims memory that caches keep if the heap has allocated much since the
 * last check.  Called on slow paths with no lock held; leaves errno alone.
 */
void reclaim_check(uint64_t now_ns);

#endif
