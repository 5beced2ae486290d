/* sample_slot.h - places whose end nobody can cross; see sample_slot.c */
#ifndef UMEM_SAMPLE_SLOT_H
#define UMEM_SAMPLE_SLOT_H

#include "vmem/base.h"

/* There are at most so many slots. */
#define SAMPLE_SLOTS 256

/* Bytes of address space of a slot, whole units. */
size_t sample_slot_bytes(void);

/* Bytes of the largest block that fits into a slot. */
size_t sample_slot_most(void);

/*
 * A place for bytes; -1: there is none, or the kernel refuses a page of it.
 * It lies in units of its own, which the address map covers.
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
