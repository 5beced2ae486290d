/* audit.h - who, when, from where; see audit.c */
#ifndef UMEM_AUDIT_H
#define UMEM_AUDIT_H

#include "umem/debug.h"

/*
 * Puts the calling thread, the time and the stack into a record, and a copy
 * of it into the transaction log.
 */
void audit_stamp(struct bufctl_audit *record);

/* A record of its own for the fail or the slab log. */
void audit_event(unsigned log, struct umem_cache *cache, struct slab *slab,
    void *addr, size_t size);

#endif
