/* quarantine.h - delays the reuse of freed chunks; see quarantine.c */
#ifndef UMEM_QUARANTINE_H
#define UMEM_QUARANTINE_H

#include "vmem/base.h"

struct quarantine {
	void **slot;           /* [I] NULL: no quarantine */
	size_t nslots;         /* [I] */
	size_t run;            /* [I] slots filled in order; power of two */
	size_t next;           /* [a] the slot to fill; a multiple: random */
	size_t newest;         /* [a] 1 + newest index; 0: it was inspected */
	size_t next_inspected; /* [a] rotates over the slots for inspection */
};

/*
 * Sets the quarantine up for chunks of chunk bytes.  If there is no memory for
 * the slots, the quarantine holds no chunk.
 */
void quarantine_init(struct quarantine *q, size_t chunk);

/* Releases the slots.  The caller has emptied them by quarantine_remove(). */
void quarantine_end(struct quarantine *q);

/*
 * Puts p into the next slot.  Returns the chunk that was there, which may be
 * reused, or NULL.  Without a quarantine it returns p.
 */
void *quarantine_swap(struct quarantine *q, void *p);

/*
 * Takes one chunk out for inspection: the newest if it has not been inspected
 * yet, otherwise the chunk in the next slot in turn.  Sets *at to the slot.
 * Returns NULL if that slot is empty.
 */
void *quarantine_inspect(struct quarantine *q, size_t *at);

/*
 * Puts the inspected chunk back into its slot, and returns the chunk that
 * another thread has put there meanwhile, or NULL.
 */
void *quarantine_put_back(struct quarantine *q, size_t at, void *p);

/*
 * Takes one chunk out, or returns NULL if no chunk is left.  *at is the
 * position of the iteration; the caller sets it to 0 before the first call.
 */
void *quarantine_remove(struct quarantine *q, size_t *at);

/* Racy estimate of the number of chunks in the quarantine. */
size_t quarantine_count(const struct quarantine *q);

#endif
