/*
 * arena_inner.h - declarations that the files of arenas share; see arena.c
 *
 * arena_fit.c searches for a free segment, arena_span.c adds, imports and
 * releases spans, arena_check.c checks the invariants.
 */
#ifndef VMEM_ARENA_INNER_H
#define VMEM_ARENA_INNER_H

#include "vmem/arena.h"

/* Tags for an allocation from the middle of a free segment, the worst case. */
#define TAGS_TAKE 2
/* Tags for a span and for the free segment that fills it. */
#define TAGS_SPAN 2

/*
 * arena_fit.c: find a free segment in which the request fits, according to the
 * policy.  Returns the segment and stores the address for the request in *addr,
 * or returns NULL.
 */
struct segment *arena_search_locked(
    vmem_t *arena, const struct request *req, int policy, uintptr_t *addr);

/* The next next fit begins at the end of the allocated segment seg. */
void arena_rotor_set_locked(vmem_t *arena, struct segment *seg);

/*
 * arena_span.c: import a span in which the request fits.  Returns the free
 * segment and stores the address for the request in *addr, or returns NULL.
 *
 * The lock is dropped during the import and held again at the end.  The reserve
 * has TAGS_SPAN + TAGS_TAKE tags at the start, and TAGS_TAKE tags at the end if
 * a segment is returned.
 */
struct segment *arena_span_import_locked(
    vmem_t *arena, const struct request *req, int vmflag, uintptr_t *addr);

/* Does the free segment fill an imported span, which is then released? */
bool arena_span_is_free(const vmem_t *arena, const struct segment *seg);

/* Release the span that seg fills.  The lock is dropped during the call. */
void arena_span_release_locked(vmem_t *arena, struct segment *seg);

/*
 * arena_check.c, for umem_assert() after a change: an arena of many segments is
 * checked only now and then.
 */
bool arena_check_sampled_locked(vmem_t *arena);

#endif
