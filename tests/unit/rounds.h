/* rounds.h - the rounds in the magazines of a layer */
#ifndef TESTS_UNIT_ROUNDS_H
#define TESTS_UNIT_ROUNDS_H

#include "magazine/shards.h"

/* Number of rounds in the layer; exact only if no thread uses it. */
static inline size_t
magazine_rounds(struct magazine_layer *layer)
{
	return cpu_rounds(layer->hot, layer->cold) + shards_nrounds(layer);
}

#endif
