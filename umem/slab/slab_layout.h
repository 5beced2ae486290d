/* slab_layout.h - the division of a slab into chunks: arithmetic only */
#ifndef UMEM_SLAB_LAYOUT_H
#define UMEM_SLAB_LAYOUT_H

#include "vmem/base.h"

struct slab_layout {
	size_t chunk;       /* bytes from one object to the next */
	size_t slab_bytes;  /* bytes of a slab's span */
	unsigned nchunks;   /* in a slab */
	size_t colour_step; /* bytes between two colours; 0: only one colour */
	size_t colour_max;  /* largest offset of a first chunk; with one colour,
			     * the only offset */
	uint64_t inverse;   /* fixed-point inverse of chunk for
			     * slab_layout_index(), or 0 */
};

/* Fraction bits of the inverse; slab_layout_index() says what they permit. */
#define SLAB_INVERSE_SHIFT 40

/*
 * Computes the layout for chunks of chunk bytes, a multiple of align, in spans
 * that are multiples of quantum.  Returns false if such a slab would be too
 * large to describe.
 */
bool slab_layout(
    struct slab_layout *layout, size_t chunk, size_t align, size_t quantum);

/*
 * The quotient offset / chunk, for offsets in a slab.  With inverse = 2^40 /
 * chunk rounded up, the multiplication is exact as long as offset * chunk is
 * below 2^40.  slab_layout() leaves the inverse 0 where it would not be exact.
 */
static inline size_t
slab_layout_index(const struct slab_layout *layout, size_t offset)
{
	if (likely(layout->inverse != 0))
		return (offset * layout->inverse) >> SLAB_INVERSE_SHIFT;
	return offset / layout->chunk;
}

/*
 * The colour after colour: the offset of the first chunk of the next slab.  It
 * wraps around to 0.
 */
static inline size_t
slab_layout_next_colour(const struct slab_layout *layout, size_t colour)
{
	size_t next = colour + layout->colour_step;

	return layout->colour_step == 0 || next > layout->colour_max ? 0 : next;
}

#endif
