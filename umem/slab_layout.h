/* slab_layout.h - how a slab is cut: arithmetic only */
#ifndef UMEM_SLAB_LAYOUT_H
#define UMEM_SLAB_LAYOUT_H

#include "vmem/base.h"

struct slab_layout {
	size_t chunk;       /* bytes from one object to the next */
	size_t slab_bytes;  /* of the span */
	unsigned nchunks;   /* in a slab */
	size_t colour_step; /* bytes between two colours, 0: one colour */
	size_t colour_max;  /* largest offset of a first chunk; if there is one
			     * colour, the offset */
	uint64_t inverse;   /* of chunk, for slab_layout_index(), or 0 */
};

/* The inverse has as many bits behind the point. */
#define SLAB_INVERSE_SHIFT 40

/*
 * Chunks of chunk bytes (a multiple of align) in spans that are multiples of
 * quantum.  False: such a slab would be too large to describe.
 */
bool slab_layout(
    struct slab_layout *layout, size_t chunk, size_t align, size_t quantum);

/*
 * offset / chunk, for offsets in a slab.  With inverse = 2^40 / chunk rounded
 * up, that is exact as long as offset * chunk is below 2^40; slab_layout()
 * leaves the inverse 0 where it would not be.
 */
static inline size_t
slab_layout_index(const struct slab_layout *layout, size_t offset)
{
	if (likely(layout->inverse != 0))
		return (offset * layout->inverse) >> SLAB_INVERSE_SHIFT;
	return offset / layout->chunk;
}

/* Offset of the first chunk after one of colour; wraps to 0. */
static inline size_t
slab_layout_next_colour(const struct slab_layout *layout, size_t colour)
{
	size_t next = colour + layout->colour_step;

	return layout->colour_step == 0 || next > layout->colour_max ? 0 : next;
}

#endif
