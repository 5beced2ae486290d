/* freelist.h - free segments by powers of two of their size */
#ifndef VMEM_FREELIST_H
#define VMEM_FREELIST_H

#include "vmem/xalloc.h"

#define FREELIST_CLASSES 64

/* The free segments of one arena, guarded by the arena's lock. */
struct freelist {
	uint64_t map; /* bit c: class c is not empty */
	size_t nsegs;
	/* No segment of the class is larger; exact right after a search. */
	size_t largest[FREELIST_CLASSES];
	struct list class[FREELIST_CLASSES]; /* newest first */
};

void freelist_init(struct freelist *fl);
void freelist_insert(struct freelist *fl, struct segment *seg);
void freelist_remove(struct freelist *fl, struct segment *seg);

/* A segment of the lists was cut to size; it keeps its place if it can. */
void freelist_cut(struct freelist *fl, struct segment *seg, size_t oldsize);

/* A segment of the lists has grown by a free: it is the newest now. */
void freelist_grown(struct freelist *fl, struct segment *seg, size_t oldsize);

/*
 * Searches: a segment and in *addr a place in it, or NULL.  Instant fit may
 * miss one that fits, but only of the request's own class, or if the request
 * is not plain; freelist_any() misses none.
 */
struct segment *freelist_instant(
    struct freelist *fl, const struct request *req, uintptr_t *addr);
struct segment *freelist_any(
    struct freelist *fl, const struct request *req, uintptr_t *addr);
struct segment *freelist_best(
    struct freelist *fl, const struct request *req, uintptr_t *addr);
struct segment *freelist_lowest(
    struct freelist *fl, const struct request *req, uintptr_t *addr);

bool freelist_check(const struct freelist *fl);

#endif
