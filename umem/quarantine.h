/* quarantine.h - what was freed stays away for a while; see quarantine.c */
#ifndef UMEM_QUARANTINE_H
#define UMEM_QUARANTINE_H

#include "vmem/base.h"

struct quarantine {
	void **slot;   /* [I] NULL: nothing is held back */
	size_t nslots; /* [I] */
	size_t last;   /* [a] 1 + where the last one was put; 0: looked at */
	size_t turn;   /* [a] of the slots to look at */
};

/* For chunks of so many bytes; with no memory, nothing is held back. */
void quarantine_init(struct quarantine *q, size_t chunk);
void quarantine_end(struct quarantine *q);

/* Holds p back; returns what it took the place of, or NULL. */
void *quarantine_swap(struct quarantine *q, void *p);

/*
 * Takes one out to be looked at: what came last, if that has not been yet,
 * else from the next slot in turn.  NULL: nothing there.  *at is the slot.
 */
void *quarantine_look(struct quarantine *q, size_t *at);

/* Puts it back; returns what has come there meanwhile, or NULL. */
void *quarantine_put_back(struct quarantine *q, size_t at, void *p);

/* Takes one out; NULL: none is left.  *at is 0 for the first call. */
void *quarantine_take(struct quarantine *q, size_t *at);

/* How many are held back, about. */
size_t quarantine_count(const struct quarantine *q);

#endif
