/* segment.h - boundary tags: one for each span, segment and marker */
#ifndef VMEM_SEGMENT_H
#define VMEM_SEGMENT_H

#include <assert.h>

#include "vmem/base.h"
#include "vmem/list.h"
#include "vmem/vmem.h"

/*
 * One range of integers.  Tags of an arena form a ring in address order; the
 * arena's lock guards them all.  size is never 0 except for markers and for
 * the ring's head, and start + size may be 0: beyond the last integer.
 */
struct segment {
	uintptr_t start;
	size_t size;
	struct segment *anext; /* by address */
	struct segment *aprev;
	union {
		struct list free;      /* VMEM_FREE: in its free list */
		struct segment *chain; /* VMEM_ALLOC: hash; spare tags */
		struct {               /* VMEM_SPAN: treap of spans */
			struct segment *left;
			struct segment *right;
		};
	};
	uint8_t type;             /* one VMEM_* bit */
	bool imported;            /* VMEM_SPAN: came from the source */
	bool due;                 /* VMEM_SPAN: in the list of next_due */
	bool slab;                /* VMEM_ALLOC: a slab of a quantum cache */
	struct segment *next_due; /* VMEM_SPAN: see quantum.c */
} __attribute__((aligned(CACHE_LINE)));

static_assert(sizeof(struct segment) == 64,
    "ten million segments take 640 MB; one tag is one cache line");

/* Tags put by, so that taking some cannot fail half-way. */
struct reserve {
	struct segment *spare;
	unsigned nspare;
};

/* The last integer of a range that is not empty. */
static inline uintptr_t
segment_last(const struct segment *seg)
{
	return seg->start + (seg->size - 1);
}

/* Neighbour in the ring, markers passed over. */
static inline struct segment *
segment_next(const struct segment *seg)
{
	struct segment *next = seg->anext;

	while (unlikely(next->type & (VMEM_ROTOR | VMEM_WALKER)))
		next = next->anext;
	return next;
}

static inline struct segment *
segment_prev(const struct segment *seg)
{
	struct segment *prev = seg->aprev;

	while (unlikely(prev->type & (VMEM_ROTOR | VMEM_WALKER)))
		prev = prev->aprev;
	return prev;
}

/* A ring of one. */
static inline void
segment_init(struct segment *seg, unsigned type)
{
	seg->start = 0;
	seg->size = 0;
	seg->anext = seg->aprev = seg;
	seg->type = (uint8_t)type;
	seg->imported = seg->due = seg->slab = false;
}

static inline void
segment_link_after(struct segment *at, struct segment *seg)
{
	seg->aprev = at;
	seg->anext = at->anext;
	at->anext->aprev = seg;
	at->anext = seg;
}

static inline void
segment_unlink(struct segment *seg)
{
	seg->aprev->anext = seg->anext;
	seg->anext->aprev = seg->aprev;
}

/* Have n tags ready; false if the kernel has no memory. */
bool segment_reserve(struct reserve *reserve, unsigned n);

/* Move n tags, which from has. */
void segment_reserve_move(struct reserve *from, struct reserve *to, unsigned n);

/* Take one that segment_reserve() made sure of. */
static inline struct segment *
segment_new(
    struct reserve *reserve, unsigned type, uintptr_t start, size_t size)
{
	struct segment *seg = reserve->spare;

	reserve->spare = seg->chain;
	reserve->nspare--;
	seg->start = start;
	seg->size = size;
	seg->type = (uint8_t)type;
	seg->imported = seg->due = seg->slab = false;
	return seg;
}

/* Put a tag back that is in no ring, list or tree. */
void segment_delete(struct reserve *reserve, struct segment *seg);

/* Give spare tags back, down to n of them. */
void segment_reserve_trim(struct reserve *reserve, unsigned n);

/* The treap of spans, by start. */
void span_insert(struct segment **root, struct segment *span);
void span_remove(struct segment **root, struct segment *span);

/* The last span that starts at or below addr, or NULL. */
struct segment *span_at(struct segment *root, uintptr_t addr);

/* The first span that starts above addr, or NULL. */
struct segment *span_above(struct segment *root, uintptr_t addr);

/*
 * Is the ring sound: ordered, spans filled without a gap, no two free
 * neighbours?  Takes time for every tag.
 */
bool segment_check(const struct segment *head, struct segment *root);

#endif
