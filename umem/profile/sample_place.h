/*
 * sample_place.h - guarded places: memory that ends at a guard page; see
 * sample_place.c
 */
#ifndef UMEM_SAMPLE_PLACE_H
#define UMEM_SAMPLE_PLACE_H

#include "vmem/base.h"

/* Largest number of guarded places. */
#define SAMPLE_PLACES 256

/* Bytes of address space of a place; a multiple of HEAP_UNIT. */
size_t sample_place_bytes(void);

/* Bytes of the largest block that fits into a place. */
size_t sample_place_max_bytes(void);

/*
 * Takes a place for a block of this many bytes.  Returns its number, or -1 if
 * there is no place or the kernel refuses to change its pages.  A place has
 * units of its own, which the page map covers.
 */
int sample_place_take(size_t bytes);

/* Returns the end of the place's usable pages. */
char *sample_place_end(int i);

/* Returns the bytes of the pages of the place's block. */
size_t sample_place_used(int i);

/*
 * sample_place_close() makes the place's pages inaccessible and releases their
 * memory; it returns false if the kernel refuses the protection.
 * sample_place_put() makes the place available again, behind those that were
 * put before.
 */
bool sample_place_close(int i);
void sample_place_put(int i);

void sample_place_lock_for_fork(void);
void sample_place_unlock_for_fork(void);

#endif
