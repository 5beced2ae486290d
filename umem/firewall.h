/* firewall.h - spans whose end nobody can cross; see firewall.c */
#ifndef UMEM_FIREWALL_H
#define UMEM_FIREWALL_H

#include "umem/slab_layout.h"

/*
 * A slab of one chunk of size bytes (a multiple of align), which ends where a
 * page begins that is not there.  layout->colour_max is its offset.
 */
bool firewall_layout(struct slab_layout *layout, size_t size);

/* Spans for such slabs; NULL: no memory. */
void *firewall_alloc(const struct slab_layout *layout);
void firewall_free(void *span, const struct slab_layout *layout);

#endif
