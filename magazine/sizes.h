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
 * The capacity of the magazines that this CPU loads.  The caller owns the
 * header.
 */
unsigned sizes_rounds(
    const struct magazine_layer *layer, const struct cpu_cold *cold);

/*
 * The magazines of a CPU grow after every so many exchanges with the depot or
 * the slabs since the last update.
 */
#define SIZES_GROWTH_EXCHANGES 32

/*
 * Increase the capacity on this CPU by one step.  The caller owns the header.
 */
void sizes_grow(struct magazine_layer *layer, struct cpu_cold *cold);

/* At an update: return the budget of capacities beyond most, or the base. */
void sizes_return_budget(struct magazine_layer *layer, unsigned most);

/* Set the limit of the depot, in bytes, unless that is out of range. */
void sizes_set_depot(struct magazine_layer *layer, size_t bytes);

#endif
