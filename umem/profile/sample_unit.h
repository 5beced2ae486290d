/* sample_unit.h - memory for the blocks of samples; see sample_unit.c */
#ifndef UMEM_SAMPLE_UNIT_H
#define UMEM_SAMPLE_UNIT_H

#include "umem/profile/sample.h"

/*
 * Makes the unit of an unguarded record a large block, and takes a unit if it
 * has none.  Returns its start; NULL: there is no memory.
 */
char *sample_unit_open(struct sample *s);

/* The opposite; the pages that the block has used are released. */
void sample_unit_close(struct sample *s);

/* Bytes of the units of a guarded record, and of the largest block in them. */
size_t sample_guarded_bytes(void);
size_t sample_guarded_max(void);

/*
 * Makes the pages of a block of so many bytes accessible, before the guard page
 * of a guarded record.  Returns their end, or NULL if there is no memory or the
 * kernel refuses.
 */
char *sample_guarded_open(struct sample *s, size_t bytes);

/* Makes the pages of the block inaccessible and releases their memory. */
void sample_guarded_close(struct sample *s);

/* Guards the group of units; for the atfork handlers. */
extern hidden struct lock sample_unit_lock;

#endif
