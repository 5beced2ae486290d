/*
 * debug_inner.h - what the files of debugging share; see debug.c
 *
 * debug_plan.c chooses a cache's checks, debug_buffer.c lays and looks at what
 * is in and around a buffer, debug_large.c has the large blocks.
 */
#ifndef UMEM_DEBUG_INNER_H
#define UMEM_DEBUG_INNER_H

#include "umem/audit.h"
#include "umem/debug.h"
#include "umem/error.h"

/* Stands for all large blocks. */
extern struct umem_cache debug_large_cache;

/* Behind the buffer p; NULL: it has none. */
static inline struct buftag *
debug_tag(const struct umem_cache *cache, void *p)
{
	if (!cache->tagged)
		return NULL;
	return (struct buftag *)(void *)((char *)p + cache->tag_offset);
}

static inline bool
debug_is_hardened(const struct umem_cache *cache)
{
	return (cache->debug & UMF_HARDENED) != 0;
}

/* Is what is freed kept away from the next owner for a while? */
static inline bool
debug_holds_back(const struct umem_cache *cache)
{
	return (cache->debug & (UMF_HARDENED | UMF_DEADBEEF)) != 0;
}

static inline bool
debug_has_patterns(const struct umem_cache *cache)
{
	return cache->pattern_bytes != 0;
}

static inline void
debug_stamp(const struct umem_cache *cache, struct bufctl *bufctl)
{
	if ((cache->debug & UMF_AUDIT) != 0)
		audit_stamp((struct bufctl_audit *)(void *)bufctl);
}

/* Reports; the buffer is out of use from now on. */
void debug_report(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info);

/* A report after which the buffer is lost. */
void debug_report_lost(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info);

/* Is what is around an allocated buffer whole?  Reports if not. */
bool debug_surroundings_are_whole(const struct umem_cache *cache,
    struct bufctl *bufctl, void *p, const struct buftag *tag);

/*
 * Is the end of the chunk before p, whose record is before, whole?  Reports if
 * not: a write before the start of p, or far past the end of that chunk.
 */
bool debug_before_is_whole(struct umem_cache *cache, struct bufctl *bufctl,
    const struct bufctl *before, void *p);

/* Lays what is around a buffer of the size that its record says. */
void debug_surround(const struct umem_cache *cache, struct bufctl *bufctl,
    void *p, struct buftag *tag);

/*
 * Were the tag and the first bytes of a free buffer, at most so many, left
 * alone?  Reports if not.
 */
bool debug_free_is_whole(const struct umem_cache *cache, struct bufctl *bufctl,
    void *p, size_t most);

/*
 * Does a buffer hold the pattern that it was given when it was allocated?
 * Reports if not.
 */
bool debug_fresh_is_whole(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p);

/* Patterns, tag and, for the second, the record of a buffer in that state. */
void debug_make_free(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p);
void debug_make_allocated(struct umem_cache *cache, struct slab *slab,
    struct bufctl *bufctl, void *p, size_t size, unsigned kind);

/* Reports an allocation in a signal handler, where that was asked for. */
void debug_check_signal(const struct umem_cache *cache);

/*
 * Moves an allocated buffer to another state, for a free.  False: it was not
 * allocated, which was reported.
 */
bool debug_claim(struct umem_cache *cache, struct bufctl *bufctl, const void *p,
    enum bufctl_state to);

/*
 * Of a buffer that begins to wait for a grace period, and whose wait is over:
 * remembers a sum of its bytes; reports a buffer that has changed since, or
 * whose surroundings have.  view is the cache with the offset of the tag.
 */
void debug_wait_begin(const struct umem_cache *view, struct bufctl *bufctl);
bool debug_wait_is_whole(const struct umem_cache *view, struct bufctl *bufctl,
    const struct buftag *tag);

/* Is it freed as it was allocated?  Reports if not. */
bool debug_is_freed_rightly(struct umem_cache *cache, struct bufctl *bufctl,
    void *p, size_t size, unsigned kind);

/* The first n bytes for the log, where that was asked for. */
void debug_keep_contents(
    struct umem_cache *cache, struct bufctl *bufctl, const void *p, size_t n);

/* The record of a large block, or NULL after a report. */
struct bufctl *debug_large_record(const void *p);

/* The large block that p lies in; NULL: none. */
void *debug_large_around(const void *p);

#endif
