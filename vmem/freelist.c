/*
 * freelist.c - free segments in power-of-two size classes
 *
 * Class c holds the free segments of 2^c to 2^(c+1) - 1 units, newest first.
 * A bitmap records the classes that are not empty.  Every segment of a class
 * above the request's own class is large enough, so one find-first-bit finds a
 * segment that fits.
 *
 * Instant fit first examines a few segments of the request's own class.
 * Otherwise a program that frees and allocates equal sizes that are not powers
 * of two would never reuse a freed segment while a larger one exists, and would
 * cut up the larger segments.  The number of segments examined is fixed, which
 * keeps the time constant.
 *
 * largest[c] is an upper bound of the sizes in class c.  A request above the
 * bound skips the class, so a million free segments that are each too small
 * cost nothing.  A search that has examined a whole class sets the bound to the
 * exact maximum.
 *
 * Locking: the arena's lock guards everything here.
 *
 * Always true (freelist_check())
 *	bit c of map is set if and only if class[c] is not empty;  the class
 *	of a segment is the highest set bit of its size;  the size of a segment
 *	is at most largest[class]
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section
 * 4.4.2.  The search of the own class and the bound are additions.
 */
#include "vmem/freelist.h"
#include "vmem/panic.h"

/*
 * Segments that instant fit examines in each class.  One is enough for a
 * program that repeats one size; a few more serve programs that mix a handful
 * of sizes of one class.  The number is small because each may be a cache miss.
 */
#define FREELIST_EXAMINED 8

/* Bitmap of the classes that can have a segment of at least size units. */
static inline uint64_t
classes_from(const struct freelist *fl, size_t size)
{
	unsigned own = highbit(size);
	uint64_t map = fl->map & (~(uint64_t)0 << own);

	if (size > fl->largest[own])
		map &= ~((uint64_t)1 << own);
	return map;
}

void
freelist_init(struct freelist *fl)
{
	*fl = (struct freelist){.nsegs = 0};
	for (unsigned c = 0; c < FREELIST_CLASSES; c++)
		list_init(&fl->class[c]);
}

void
freelist_insert(struct freelist *fl, struct segment *seg)
{
	unsigned c = highbit(seg->size);

	umem_assert(seg->type == VMEM_FREE);
	list_add_head(&fl->class[c], &seg->free);
	fl->map |= (uint64_t)1 << c;
	if (seg->size > fl->largest[c])
		fl->largest[c] = seg->size;
	fl->nsegs++;
}

static void
freelist_remove_from(struct freelist *fl, struct segment *seg, unsigned c)
{
	umem_assert(seg->type == VMEM_FREE);
	umem_assert(fl->nsegs != 0 && (fl->map >> c & 1) != 0);
	list_remove(&seg->free);
	if (list_empty(&fl->class[c])) {
		fl->map &= ~((uint64_t)1 << c);
		fl->largest[c] = 0;
	}
	fl->nsegs--;
}

void
freelist_remove(struct freelist *fl, struct segment *seg)
{
	freelist_remove_from(fl, seg, highbit(seg->size));
}

void
freelist_shrunk(struct freelist *fl, struct segment *seg, size_t oldsize)
{
	umem_assert(seg->size != 0 && seg->size <= oldsize);

	unsigned c = highbit(oldsize);

	if (highbit(seg->size) == c)
		return;
	freelist_remove_from(fl, seg, c);
	freelist_insert(fl, seg);
}

void
freelist_grown(struct freelist *fl, struct segment *seg, size_t oldsize)
{
	umem_assert(
	    seg->size >= oldsize && oldsize <= fl->largest[highbit(oldsize)]);

	unsigned c = highbit(oldsize);

	if (fl->class[c].next == &seg->free && highbit(seg->size) == c) {
		if (seg->size > fl->largest[c])
			fl->largest[c] = seg->size;
		return;
	}
	freelist_remove_from(fl, seg, c);
	freelist_insert(fl, seg);
}

struct segment *
freelist_instant(
    struct freelist *fl, const struct request *req, uintptr_t *addr)
{
	for (uint64_t map = classes_from(fl, req->size); map != 0;
	     map &= map - 1) {
		unsigned nexamined = 0;

		list_foreach (
		    seg, &fl->class[lowbit(map)], struct segment, free) {
			if (request_fits(req, seg, addr))
				return seg;
			if (++nexamined == FREELIST_EXAMINED)
				break;
		}
	}
	return NULL;
}

static bool
is_better(enum freelist_choice choice, const struct segment *seg,
    const struct segment *best)
{
	if (best == NULL)
		return true;
	return choice == CHOOSE_LOWEST ? seg->start < best->start
				       : seg->size < best->size;
}

/*
 * Search one class for a better segment than best.  If all of the class was
 * examined, its bound is exact afterwards.
 */
static struct segment *
class_search(struct freelist *fl, unsigned c, enum freelist_choice choice,
    const struct request *req, struct segment *best, uintptr_t *addr)
{
	size_t largest = 0;
	uintptr_t at;

	list_foreach (seg, &fl->class[c], struct segment, free) {
		largest = size_max(largest, seg->size);
		if (!is_better(choice, seg, best) ||
		    !request_fits(req, seg, &at))
			continue;
		best = seg;
		*addr = at;
		if (choice == CHOOSE_ANY ||
		    (choice == CHOOSE_SMALLEST && seg->size == req->size))
			return best;
	}
	fl->largest[c] = largest;
	return best;
}

struct segment *
freelist_search(struct freelist *fl, enum freelist_choice choice,
    const struct request *req, uintptr_t *addr)
{
	struct segment *best = NULL;

	for (uint64_t map = classes_from(fl, req->size); map != 0;
	     map &= map - 1) {
		best = class_search(fl, lowbit(map), choice, req, best, addr);
		/* A higher class has larger segments only. */
		if (best != NULL && choice != CHOOSE_LOWEST)
			break;
	}
	return best;
}

bool
freelist_check(const struct freelist *fl)
{
	size_t n = 0;

	for (unsigned c = 0; c < FREELIST_CLASSES; c++) {
		const struct list *head = &fl->class[c];

		if ((fl->map >> c & 1) == list_empty(head))
			return false;
		list_foreach (seg, head, struct segment, free) {
			if (seg->type != VMEM_FREE || highbit(seg->size) != c ||
			    seg->size > fl->largest[c])
				return false;
			n++;
		}
	}
	return n == fl->nsegs;
}
