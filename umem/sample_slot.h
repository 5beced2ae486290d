/* sample_slot.h - places whose end nobody can cross; see sample_slot.c */
#ifndef UMEM_SAMPLE_SLOT_H
#define UMEM_SAMPLE_SLOT_H

#include "vmem/base.h"

/* As many there are at most; the largest block that fits into one. */
#define SAMPLE_SLOTS 256
size_t sample_slot_most(void);

/*
 * A place for bytes; -1: there is none, or the kernel refuses a page of it.
 * It lies in a unit of its own, which the address map covers.
 */
int sample_slot_take(size_t bytes);

/* Where its pages end. */
char *sample_slot_end(int i);

/*
 * The pages are gone; false if the kernel refuses that.  And: it may be taken
 * again, after all that were put there before.
 */
bool sample_slot_close(int i);
void sample_slot_put(int i);

void sample_slot_lock_for_fork(void);
void sample_slot_unlock_for_fork(void);

#endif
