/* sizes.h - how much magazines and depot hold; see sizes.c */
#ifndef MAGAZINE_SIZES_H
#define MAGAZINE_SIZES_H

#include "magazine/magazine.h"

/* After shards_init(); rounds_max as for magazine_layer_init(). */
void sizes_init(
    struct magazine_layer *layer, size_t object_bytes, unsigned rounds_max);
void sizes_end(struct magazine_layer *layer);

/* A CPU has exchanged a magazine with the depot: one of many? */
void sizes_exchanged(struct magazine_layer *layer, const struct cpu_cold *cold);

/* It had no room: was its last exchange for want of rounds? */
void sizes_overflowed(struct magazine_layer *layer, struct cpu_cold *cold);

/* The slabs are asked for rounds: were they given some not long ago? */
void sizes_refilled(struct magazine_layer *layer);

/*
 * At an update: did CPUs meet at the locks of depot and slabs so often that
 * magazines should be larger?
 */
bool sizes_grow_if_met(
    struct magazine_layer *layer, struct magazine_visits behind);

/* The end of a flow is seen by the update after the last. */
void sizes_return_loan(struct magazine_layer *layer);

/* An update found that nobody asks for what lies in the depot. */
void sizes_shrink_depot(struct magazine_layer *layer);

#endif
