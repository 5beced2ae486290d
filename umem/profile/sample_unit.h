/* sample_unit.h - units of the heap for samples; see sample_unit.c */
#ifndef UMEM_SAMPLE_UNIT_H
#define UMEM_SAMPLE_UNIT_H

#include "vmem/base.h"

/*
 * Takes adjacent units that are never returned; bytes is one or two times
 * HEAP_UNIT.  Their pages have no memory; each gets a small page when it is
 * touched.  The page map covers them.  Returns NULL if there is no memory.
 */
char *sample_unit_take(size_t bytes);

void sample_unit_lock_for_fork(void);
void sample_unit_unlock_for_fork(void);

#endif
