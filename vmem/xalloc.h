/* xalloc.h - what an allocation asks for, and whether a segment can give it */
#ifndef VMEM_XALLOC_H
#define VMEM_XALLOC_H

#include "vmem/segment.h"

/*
 * One request.  A plain one has a size and nothing else that a segment could
 * fail; its address is the segment's start.
 */
struct request {
	size_t size;     /* multiple of the quantum, not 0 */
	uintptr_t align; /* power of two, at least the quantum */
	uintptr_t phase;
	uintptr_t nocross; /* power of two, or 0 */
	uintptr_t min;     /* lowest start */
	uintptr_t max;     /* highest last integer */
	bool plain;
	bool bounded; /* min or max was given */
};

/* The lowest address in [first, last] that suits; false if none does. */
bool request_place(const struct request *req, uintptr_t first, uintptr_t last,
    uintptr_t *addr);

/* The same for a free segment. */
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

/* More than enough to ask a source for; false if no number is. */
bool request_import_size(const struct request *req, size_t source_quantum,
    bool source_aligns, size_t *size);

static inline struct request
request_plain(size_t size, size_t quantum)
{
	return (struct request){
	    .size = size, .align = quantum, .max = UINTPTR_MAX, .plain = true};
}

#endif
