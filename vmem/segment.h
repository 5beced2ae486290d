/* segment.h - boundary tags, one for each span, segment and marker */
#ifndef VMEM_SEGMENT_H
#define VMEM_SEGMENT_H

#include <assert.h>

#include "vmem/base.h"
#include "vmem/list.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

/*
 * A boundary tag describes one range of integers.  The tags of an arena form a
 * ring in address order; the arena's lock guards them.  size is 0 only in
 * markers and in the head of the ring.  start + size is 0 if the range ends
 * with the largest integer.
 */
struct segment {
	uintptr_t start;
	size_t size;
	struct segment *anext; /* ring by address */
	struct segment *aprev;
	union {
		struct list free;      /* VMEM_FREE: links in its free list */
		struct segment *chain; /* VMEM_ALLOC: hash chain; spare: list */
		struct {               /* VMEM_SPAN: children in the treap */
			struct segment *left;
			struct segment *right;
		};
	};
	uint8_t type;  /* one VMEM_* bit */
	bool imported; /* VMEM_SPAN: the source supplied it */
} __attribute__((aligned(CACHE_LINE)));

static_assert(sizeof(struct segment) == 64,
    "ten million segments take 640 MB; one tag is one cache line");

/* Spare tags, so that an operation cannot fail half-way for want of a tag. */
struct reserve {
	struct segment *spare;
	unsigned nspare;
};

/* The last integer of a range; the range is not empty. */
static inline uintptr_t
segment_last(const struct segment *seg)
{
	return seg->start + (seg->size - 1);
}

/* The next tag in the ring that is not a marker. */
static inline struct segment *
segment_next(const struct segment *seg)
{
	struct segment *next = seg->anext;

	while (unlikely(next->type & (VMEM_ROTOR | VMEM_WALKER)))
		next = next->anext;
	return next;
}

/* The previous tag in the ring that is not a marker. */
static inline struct segment *
segment_prev(const struct segment *seg)
{
	struct segment *prev = seg->aprev;

	while (unlikely(prev->type & (VMEM_ROTOR | VMEM_WALKER)))
		prev = prev->aprev;
	return prev;
}

/* Initialise a tag of size 0 as a ring of one. */
static inline void
segment_init(struct segment *seg, unsigned type)
{
	*seg =
	    (struct segment){.anext = seg, .aprev = seg, .type = (uint8_t)type};
}

static inline void
segment_link_after(struct segment *at, struct segment *seg)
{
	umem_assert(at->anext->aprev == at);
	seg->aprev = at;
	seg->anext = at->anext;
	at->anext->aprev = seg;
	at->anext = seg;
}

static inline void
segment_unlink(struct segment *seg)
{
	umem_assert(seg->aprev->anext == seg && seg->anext->aprev == seg);
	seg->aprev->anext = seg->anext;
	seg->anext->aprev = seg->aprev;
}

/* Fill the reserve to at least n tags; false if the kernel has no memory. */
bool segment_reserve(struct reserve *reserve, unsigned n);

/* Move n tags from one reserve to another; from has at least n. */
void segment_reserve_move(struct reserve *from, struct reserve *to, unsigned n);

/* Take a tag that segment_reserve() has provided, and set its range. */
static inline struct segment *
segment_new(
    struct reserve *reserve, unsigned type, uintptr_t start, size_t size)
{
	struct segment *seg = reserve->spare;

	umem_assert(reserve->nspare != 0 && size != 0);
	reserve->spare = seg->chain;
	reserve->nspare--;
	seg->start = start;
	seg->size = size;
	seg->type = (uint8_t)type;
	seg->imported = false;
	return seg;
}

/* Return a tag to the reserve; the tag is in no ring, list or tree. */
void segment_delete(struct reserve *reserve, struct segment *seg);

/* Free all spare tags. */
void segment_reserve_free(struct reserve *reserve);

/* Is the number of spare tags right? */
bool segment_reserve_check(const struct reserve *reserve);

/* Insert into and remove from the treap of spans; the key is the start. */
void span_insert(struct segment **root, struct segment *span);
void span_remove(struct segment **root, struct segment *span);

/*
 * Returns the last span that starts at or below addr, or the first one that
 * starts above addr; NULL if there is none.
 */
struct segment *span_near(struct segment *root, uintptr_t addr, bool above);

/*
 * Is the ring valid: ordered by address, spans filled without a gap, no two
 * free segments adjacent?  Examines every tag.
 */
bool segment_check(const struct segment *head, struct segment *root);

#endif
