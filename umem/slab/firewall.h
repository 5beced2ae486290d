/* firewall.h - spans that end at a guard page; see firewall.c */
#ifndef UMEM_FIREWALL_H
#define UMEM_FIREWALL_H

#include "umem/slab/slab_layout.h"

/*
 * Lays out a slab of one chunk of size bytes (a multiple of align), which ends
 * at a guard page.  layout->colour_max is the chunk's offset.  Returns false if
 * size is 0 or too large.
 */
bool firewall_layout(struct slab_layout *layout, size_t size);

/*
 * Allocate and free spans for such slabs.  firewall_alloc() returns NULL if
 * there is no memory.
 */
void *firewall_alloc(const struct slab_layout *layout);
void firewall_free(void *span, const struct slab_layout *layout);

/* Returns the bytes of a span in use that have memory. */
size_t firewall_page_bytes(const struct slab_layout *layout);

#endif
