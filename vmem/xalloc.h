/* xalloc.h - allocation requests and their constraints */
#ifndef VMEM_XALLOC_H
#define VMEM_XALLOC_H

#include "vmem/segment.h"

/*
 * One request.  A plain request has no constraint besides its size, so every
 * free segment of that size fits and the address is the segment's start.
 */
struct request {
	size_t size;       /* multiple of the quantum, not 0 */
	uintptr_t align;   /* power of two, at least the quantum */
	uintptr_t phase;   /* the start modulo align; less than align */
	uintptr_t nocross; /* power of two that is not crossed, or 0 */
	uintptr_t min;     /* lowest start */
	uintptr_t max;     /* highest last integer */
	bool plain;
	bool bounded; /* the caller gave min or max */
};

/*
 * Store the lowest address in *addr at which the request fits in [first, last].
 * Returns false if there is none.
 */
bool request_place(const struct request *req, uintptr_t first, uintptr_t last,
    uintptr_t *addr);

/*
 * Store the lowest address in *addr at which the request fits in a free
 * segment.  Returns false if there is none.
 */
static inline bool
request_fits(
    const struct request *req, const struct segment *seg, uintptr_t *addr)
{
	if (seg->size < req->size)
		return false;
	if (likely(req->plain)) {
		*addr = seg->start;
		return true;
	}
	return request_place(req, seg->start, segment_last(seg), addr);
}

/*
 * Compute a size in units for an import, a multiple of source_quantum, such
 * that the request fits wherever the source places the span.  source_aligns:
 * the source observes req->align.  Returns false if the size overflows.
 */
bool request_import_size(const struct request *req, size_t source_quantum,
    bool source_aligns, size_t *size);

/* A request for size units without further constraints. */
static inline struct request
request_plain(size_t size, size_t quantum)
{
	return (struct request){
	    .size = size, .align = quantum, .max = UINTPTR_MAX, .plain = true};
}

#endif
