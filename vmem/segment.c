/*
 * segment.c - boundary tags
 *
 * A tag describes a range of integers from outside, so that ranges which are
 * no memory can be described too.  All tags of an arena form one ring by
 * address:
 *
 *	head, span, seg, seg, ..., span, seg, ..., (head)
 *
 * A span's tag stands before the tags of its segments, which fill the span
 * without a gap and of which no two free ones are neighbours.  The tag of the
 * next span, or the head, stops a merge at the span's end.  Between them may
 * stand markers of size 0: where next fit goes on (VMEM_ROTOR), and where a
 * walk has got to (VMEM_WALKER).  A marker means a place in the ring and
 * never hinders a merge: segment_next() and segment_prev() pass over it.
 *
 * The reserve
 *	A split needs a tag, at worst two; a new span needs two more.  They are
 *	taken from the arena's reserve, which is filled before anything else
 *	is changed, so an operation either cannot start or cannot fail.  A
 *	free only ever gives tags back, so it needs no memory.
 *
 * Spans are also nodes of a treap, a search tree kept balanced by a hash of
 * the key: a heap in the hash as it is a tree in the key.  It finds the place
 * of a new span and what overlaps it, in logarithmic time.
 *
 * Locking: the arena's lock guards everything here; meta's lock, a leaf, is
 * taken inside.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4;
 * Seidel and Aragon, "Randomized Search Trees", 1996.
 */
#include "vmem/segment.h"
#include "vmem/meta.h"

/* Fetched at once: meta's lock is taken less often. */
#define RESERVE_BATCH 8

/* More than a burst of frees needs no asking meta for; 4 KiB an arena. */
#define RESERVE_MAX 64

static noinline bool
reserve_fill(struct reserve *reserve, unsigned n)
{
	while (reserve->nspare < n + RESERVE_BATCH) {
		struct segment *seg = meta_alloc(sizeof(*seg));

		if (seg == NULL)
			break;
		seg->chain = reserve->spare;
		reserve->spare = seg;
		reserve->nspare++;
	}
	return reserve->nspare >= n;
}

bool
segment_reserve(struct reserve *reserve, unsigned n)
{
	return likely(reserve->nspare >= n) || reserve_fill(reserve, n);
}

void
segment_reserve_move(struct reserve *from, struct reserve *to, unsigned n)
{
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
segment_reserve_trim(struct reserve *reserve, unsigned n)
{
	while (reserve->nspare > n) {
		struct segment *seg = reserve->spare;

		reserve->spare = seg->chain;
		reserve->nspare--;
		meta_free(seg, sizeof(*seg));
	}
}

static inline uint64_t
span_priority(const struct segment *span)
{
	uint64_t x = span->start;

	/* Any mixing of bits will do; the constant is 2^64 / golden ratio. */
	x ^= x >> 29;
	x *= 0x9e3779b97f4a7c15;
	x ^= x >> 32;
	return x * 0x9e3779b97f4a7c15;
}

void
span_insert(struct segment **root, struct segment *span)
{
	uint64_t priority = span_priority(span);
	struct segment **at = root;

	while (*at != NULL && span_priority(*at) >= priority)
		at = span->start < (*at)->start ? &(*at)->left : &(*at)->right;

	/* What hangs here is cut along the key into the two subtrees. */
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
}

void
span_remove(struct segment **root, struct segment *span)
{
	struct segment **at = root;

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
span_at(struct segment *root, uintptr_t addr)
{
	struct segment *found = NULL;

	while (root != NULL) {
		if (root->start <= addr) {
			found = root;
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return found;
}

struct segment *
span_above(struct segment *root, uintptr_t addr)
{
	struct segment *found = NULL;

	while (root != NULL) {
		if (root->start > addr) {
			found = root;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return found;
}

/* The tags of one span; NULL if they are not sound, else what follows. */
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
		if (span_at(root, seg->start) != seg)
			return false;
		last = segment_last(seg);
		seg = span_check(seg);
		if (seg == NULL)
			return false;
	}
	return true;
}
