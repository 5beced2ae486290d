/* rounds.h - the rounds in the magazines of a layer */
#ifndef TESTS_UNIT_ROUNDS_H
#define TESTS_UNIT_ROUNDS_H

#include "magazine/shards.h"
#include "magazine/sizes.h"

/* Number of rounds in the layer; exact only if no thread uses it. */
static inline size_t
magazine_rounds(struct magazine_layer *layer)
{
	return cpu_rounds(layer->hot, layer->cold) + shards_nrounds(layer);
}

/* Increases the capacity on this CPU by one step. */
static inline void
grow_here(struct magazine_layer *layer)
{
	struct cpu_owned own;

	while (!cpu_acquire(layer->hot, layer->cold, &own))
		;
	sizes_grow(layer, own.cold);
	cpu_release(&own);
}

#endif
