/* audit.h - thread, time and stack of transactions; see audit.c */
#ifndef UMEM_AUDIT_H
#define UMEM_AUDIT_H

#include "umem/debug/log.h"

/*
 * Stores the calling thread, the time and the stack in a bufctl, and a copy of
 * the bufctl in the transaction log.
 */
void audit_stamp(struct bufctl_audit *bufctl);

/* Adds a bufctl to the fail log or to the slab log, if that is on. */
void audit_event(enum log_kind log, struct umem_cache *cache, struct slab *slab,
    void *addr, size_t size);

#endif
