/*
 * segment.c - boundary tags
 *
 * A boundary tag is stored outside the range of integers that it describes, so
 * that an arena can manage ranges that are not memory.  All tags of an arena
 * form one ring in address order:
 *
 *	head, span, seg, seg, ..., span, seg, ..., (head)
 *
 * The tag of a span precedes the tags of its segments.  The segments fill the
 * span without a gap, and no two free segments are adjacent.  The tag of the
 * next span, or the head, stops a merge at the end of the span.  Markers, which
 * are tags of size 0, may stand between these tags: VMEM_ROTOR is the position
 * where next fit continues, and VMEM_WALKER is the position of a walk.  A
 * marker is only a position in the ring and never prevents a merge, because
 * segment_next() and segment_prev() skip it.
 *
 * The reserve
 *	A split needs one tag, or two in the worst case.  A new span needs two
 *	more.  An operation takes them from the arena's reserve, which it fills
 *	before it changes anything else.  It therefore fails before the first
 *	change or not at all.  A free only returns tags, so it needs no memory.
 *
 * Spans are also the nodes of a treap: a search tree by start that is at the
 * same time a heap by a hash of the start, which keeps it balanced.  The treap
 * finds the position of a new span, and an overlapping span, in logarithmic
 * time.
 *
 * Locking: the arena's lock guards everything here.  The metadata allocator's
 * lock, a leaf, is taken inside.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4;
 * Seidel and Aragon, "Randomized Search Trees", 1996.
 */
#include "vmem/segment.h"
#include "vmem/hash.h"
#include "vmem/meta.h"

/*
 * Most spare tags of an arena (4 KiB).  This lets allocations after a burst of
 * frees do without the metadata allocator.
 */
#define RESERVE_MAX 64

/* Allocate tags up to n; false if there are fewer. */
static noinline bool
segment_reserve_fill(struct reserve *reserve, unsigned n)
{
	while (reserve->nspare < n) {
		struct segment *seg = meta_alloc(sizeof(*seg));

		if (seg == NULL)
			return false;
		seg->chain = reserve->spare;
		reserve->spare = seg;
		reserve->nspare++;
	}
	return true;
}

bool
segment_reserve(struct reserve *reserve, unsigned n)
{
	return likely(reserve->nspare >= n) || segment_reserve_fill(reserve, n);
}

void
segment_reserve_move(struct reserve *from, struct reserve *to, unsigned n)
{
	umem_assert(from->nspare >= n);
	from->nspare -= n;
	to->nspare += n;
	while (n-- > 0) {
		struct segment *seg = from->spare;

		from->spare = seg->chain;
		seg->chain = to->spare;
		to->spare = seg;
	}
}

void
segment_delete(struct reserve *reserve, struct segment *seg)
{
	if (unlikely(reserve->nspare >= RESERVE_MAX)) {
		meta_free(seg, sizeof(*seg));
		return;
	}
	seg->chain = reserve->spare;
	reserve->spare = seg;
	reserve->nspare++;
}

void
segment_reserve_free(struct reserve *reserve)
{
	while (reserve->nspare > 0) {
		struct segment *seg = reserve->spare;

		reserve->spare = seg->chain;
		reserve->nspare--;
		meta_free(seg, sizeof(*seg));
	}
}

bool
segment_reserve_check(const struct reserve *reserve)
{
	unsigned n = 0;

	for (const struct segment *seg = reserve->spare; seg != NULL;
	     seg = seg->chain)
		n++;
	return n == reserve->nspare;
}

/* The priority of a span in the heap order of the treap. */
static inline uint64_t
span_priority(const struct segment *span)
{
	uint64_t x = span->start;

	/* Any mixing function will do. */
	x = hash_multiply(x ^ x >> 29);
	return hash_multiply(x ^ x >> 32);
}

void
span_insert(struct segment **root, struct segment *span)
{
	uint64_t priority = span_priority(span);
	struct segment **at = root;

	while (*at != NULL && span_priority(*at) >= priority)
		at = span->start < (*at)->start ? &(*at)->left : &(*at)->right;

	/* Split the subtree at this position by key into two subtrees. */
	struct segment *node = *at;
	struct segment **left = &span->left, **right = &span->right;

	*at = span;
	while (node != NULL) {
		if (node->start < span->start) {
			*left = node;
			left = &node->right;
			node = node->right;
		} else {
			*right = node;
			right = &node->left;
			node = node->left;
		}
	}
	*left = *right = NULL;
	umem_assert(span_near(*root, span->start, /* above */ false) == span);
}

void
span_remove(struct segment **root, struct segment *span)
{
	struct segment **at = root;

	umem_assert(span_near(*root, span->start, /* above */ false) == span);
	while (*at != span)
		at = span->start < (*at)->start ? &(*at)->left : &(*at)->right;

	struct segment *left = span->left, *right = span->right;

	while (left != NULL && right != NULL) {
		if (span_priority(left) >= span_priority(right)) {
			*at = left;
			at = &left->right;
			left = left->right;
		} else {
			*at = right;
			at = &right->left;
			right = right->left;
		}
	}
	*at = left != NULL ? left : right;
}

struct segment *
span_near(struct segment *root, uintptr_t addr, bool above)
{
	struct segment *found = NULL;

	while (root != NULL) {
		bool is_above = root->start > addr;

		if (is_above == above)
			found = root;
		root = is_above ? root->left : root->right;
	}
	return found;
}

/*
 * Check the tags of one span.  Returns the tag that follows the span, or NULL
 * if a tag is invalid.
 */
static const struct segment *
span_check(const struct segment *span)
{
	const struct segment *seg = segment_next(span);
	const struct segment *before = NULL;
	uintptr_t at = span->start;

	for (; !(seg->type & VMEM_SPAN); seg = segment_next(seg)) {
		if (seg->start != at || seg->size == 0)
			return NULL;
		if (seg->type != VMEM_ALLOC && seg->type != VMEM_FREE)
			return NULL;
		if (before != NULL && before->type == VMEM_FREE &&
		    seg->type == VMEM_FREE)
			return NULL;
		at += seg->size;
		before = seg;
	}
	return at - 1 == segment_last(span) && before != NULL ? seg : NULL;
}

bool
segment_check(const struct segment *head, struct segment *root)
{
	const struct segment *seg = head;
	uintptr_t last = 0;

	do {
		if (seg->anext->aprev != seg || seg->aprev->anext != seg)
			return false;
		seg = seg->anext;
	} while (seg != head);

	for (seg = segment_next(head); seg != head;) {
		if (seg->type != VMEM_SPAN || seg->start <= last)
			return false;
		if (span_near(root, seg->start, /* above */ false) != seg)
			return false;
		last = segment_last(seg);
		seg = span_check(seg);
		if (seg == NULL)
			return false;
	}
	return true;
}
