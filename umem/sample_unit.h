/* sample_unit.h - units of the heap for samples; see sample_unit.c */
#ifndef UMEM_SAMPLE_UNIT_H
#define UMEM_SAMPLE_UNIT_H

#include "vmem/base.h"

/*
 * Units for good, side by side; bytes is one or two times HEAP_UNIT.  None of
 * their pages has memory, and each gets a small page when it is touched.  The
 * address map covers them.  NULL: no memory.
 */
char *sample_unit_take(size_t bytes);

void sample_unit_lock_for_fork(void);
void sample_unit_unlock_for_fork(void);

#endif
