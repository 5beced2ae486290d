/* freelist.h - free segments in power-of-two size classes */
#ifndef VMEM_FREELIST_H
#define VMEM_FREELIST_H

#include "vmem/xalloc.h"

#define FREELIST_CLASSES 64

/* The free segments of one arena, guarded by the arena's lock. */
struct freelist {
	uint64_t map; /* bit c: class c is not empty */
	size_t nsegs;
	/* No segment of a class is larger; a full search makes it exact. */
	size_t largest[FREELIST_CLASSES];
	struct list class[FREELIST_CLASSES]; /* newest first */
};

void freelist_init(struct freelist *fl);
void freelist_insert(struct freelist *fl, struct segment *seg);
void freelist_remove(struct freelist *fl, struct segment *seg);

/*
 * Update the lists after the caller has reduced seg from oldsize to seg->size.
 * The segment keeps its position if its class stays the same.
 */
void freelist_shrunk(struct freelist *fl, struct segment *seg, size_t oldsize);

/*
 * Update the lists after a free has enlarged seg from oldsize to seg->size.
 * The segment becomes the newest of its class.
 */
void freelist_grown(struct freelist *fl, struct segment *seg, size_t oldsize);

/*
 * Searches.  Each returns a segment that fits and stores an address inside it
 * in *addr, or returns NULL.
 *
 * freelist_instant() examines a bounded number of segments of each class.  It
 * can miss a segment that fits if the segment is in the request's own class, or
 * if the request is not plain.
 */
struct segment *freelist_instant(
    struct freelist *fl, const struct request *req, uintptr_t *addr);

/* Which of the segments that fit?  These searches miss none. */
enum freelist_choice {
	CHOOSE_ANY,
	CHOOSE_SMALLEST,
	CHOOSE_LOWEST /* address */
};

struct segment *freelist_search(struct freelist *fl,
    enum freelist_choice choice, const struct request *req, uintptr_t *addr);

/* Are the invariants of freelist.c true?  Examines every free segment. */
bool freelist_check(const struct freelist *fl);

#endif
