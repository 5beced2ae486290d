/* sizes.h - capacities of the magazines and the depot; see sizes.c */
#ifndef MAGAZINE_SIZES_H
#define MAGAZINE_SIZES_H

#include "magazine/magazine.h"

/* [a] Bytes that all caches take from each CPU's budget; see sizes.c. */
extern hidden size_t sizes_budget_used;

/* The budget of each CPU in bytes, see "Quota" in sizes.c. */
size_t sizes_cpu_budget(void);

/*
 * Set the initial capacities, after shards_init().  object_bytes is the memory
 * that a round holds.  rounds_max, if not 0, bounds the rounds of a magazine.
 */
void sizes_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max);

/* Return the budget of a layer that is being destroyed. */
void sizes_end(struct magazine_layer *layer);

/*
 * Called after every SIZES_EXCHANGES_STEP magazines that a CPU has exchanged
 * with the depot or the slabs.  nmoved counts them since the last update.
 * Detects sustained traffic, for which magazines grow.
 */
#define SIZES_EXCHANGES_STEP 8
void sizes_exchanged(struct magazine_layer *layer, uint32_t nmoved);

/*
 * Called when rounds are taken from the slabs and layer->overflowed is set: the
 * depot flushed a magazine to the slabs not long ago.  The depot grows.
 */
void sizes_refilled(struct magazine_layer *layer);

/*
 * At an update: return the budget if there was no sustained traffic since the
 * last update.
 */
void sizes_return_budget(struct magazine_layer *layer);

/* At an update that found a surplus in the depot: shrink the depot. */
void sizes_shrink_depot(struct magazine_layer *layer);

#endif
