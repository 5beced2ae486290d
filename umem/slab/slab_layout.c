/*
 * slab_layout.c - the division of a slab into chunks: arithmetic only
 *
 * Waste
 *	A slab is the smallest multiple of the quantum that wastes at most an
 *	eighth of itself (Bonwick's rule), so that slabs become empty and are
 *	released early.
 *
 * Colour
 *	The waste is used to shift the first chunk: each new slab of a cache
 *	starts its chunks one step further than the last, and after the last
 *	step at 0 again.  So fields at equal offsets of objects in successive
 *	slabs lie in different cache sets.  A step is a cache line, or the
 *	largest power of two that divides the chunk size if that is more, so
 *	that chunks keep the alignment that their size gives them.
 *
 * Source: Bonwick, "The Slab Allocator", USENIX 1994, section 4.
 */
#include "umem/slab/slab_layout.h"
#include "vmem/panic.h"

#define WASTE_PART 8
/* Bounds the search; the classes of malloc() need at most 3. */
#define QUANTA_MAX 64

bool
slab_layout(
    struct slab_layout *layout, size_t chunk, size_t align, size_t quantum)
{
	umem_assert(is_pow2(align) && quantum != 0);

	size_t bytes = align_up(chunk, quantum);
	size_t slack;

	if (chunk == 0 || bytes < chunk)
		return false;
	for (size_t i = 0; i < QUANTA_MAX; i++) {
		slack = bytes % chunk;
		if (slack <= bytes / WASTE_PART || bytes + quantum < bytes)
			break;
		bytes += quantum;
	}
	slack = bytes % chunk;
	if (bytes / chunk > UINT32_MAX / 2)
		return false;
	layout->chunk = chunk;
	layout->slab_bytes = bytes;
	layout->nchunks = (unsigned)(bytes / chunk);
	layout->inverse = 0;
	if (bytes < ((size_t)1 << SLAB_INVERSE_SHIFT) / chunk &&
	    bytes < (size_t)1 << (63 - SLAB_INVERSE_SHIFT))
		layout->inverse =
		    (((uint64_t)1 << SLAB_INVERSE_SHIFT) + chunk - 1) / chunk;
	layout->colour_step = chunk & -chunk;
	layout->colour_step = size_max(layout->colour_step, CACHE_LINE);
	layout->colour_step = size_max(layout->colour_step, align);
	layout->colour_max = align_down(slack, layout->colour_step);
	if (layout->colour_max == 0)
		layout->colour_step = 0;
	umem_assert(layout->colour_max + layout->nchunks * chunk <= bytes);
	return true;
}
