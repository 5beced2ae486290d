/* sample_slot.h - memory that ends at a guard page; see sample_slot.c */
#ifndef UMEM_SAMPLE_SLOT_H
#define UMEM_SAMPLE_SLOT_H

#include "vmem/base.h"

/* Largest number of slots. */
#define SAMPLE_SLOTS 256

/* Bytes of address space of a slot; a multiple of HEAP_UNIT. */
size_t sample_slot_bytes(void);

/* Bytes of the largest block that fits into a slot. */
size_t sample_slot_most(void);

/*
 * Takes a slot for a block of this many bytes.  Returns its number, or -1 if
 * there is no slot or the kernel refuses to change its pages.  A slot has units
 * of its own, which the address map covers.
 */
int sample_slot_take(size_t bytes);

/* Returns the end of the slot's usable pages. */
char *sample_slot_end(int i);

/*
 * sample_slot_close() makes the slot's pages inaccessible and releases their
 * memory; it returns false if the kernel refuses the protection.
 * sample_slot_put() makes the slot available again, behind those that were put
 * before.
 */
bool sample_slot_close(int i);
void sample_slot_put(int i);

void sample_slot_lock_for_fork(void);
void sample_slot_unlock_for_fork(void);

#endif
