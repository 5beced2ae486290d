/*
 * debug_inner.h - declarations shared by the files of debugging; see debug.c
 *
 * debug_plan.c selects a cache's checks, debug_buffer.c writes and checks the
 * contents and the redzone of a buffer, debug_large.c has the large blocks.
 */
#ifndef UMEM_DEBUG_INNER_H
#define UMEM_DEBUG_INNER_H

#include "umem/debug/audit.h"
#include "umem/debug/debug.h"
#include "umem/debug/error.h"
#include "vmem/panic.h"

/* Returns the bytes between the start of a large block and its tag. */
size_t debug_large_tag_offset(const void *p);

/* Returns the bytes between the start of the buffer p and its tag. */
static inline size_t
debug_tag_offset(const struct umem_cache *cache, const void *p)
{
	return cache == &debug_large_cache ? debug_large_tag_offset(p)
					   : cache->tag_offset;
}

/* Returns the tag behind the buffer p; NULL: the cache has no tags. */
static inline struct buftag *
debug_tag(const struct umem_cache *cache, const void *p)
{
	uintptr_t tag = (uintptr_t)p + debug_tag_offset(cache, p);

	if (cache->tag_bytes == 0)
		return NULL;
	umem_assert(tag % sizeof(uint64_t) == 0);
	return (struct buftag *)tag;
}

static inline bool
debug_is_hardened(const struct umem_cache *cache)
{
	return (cache->debug & UMF_HARDENED) != 0;
}

/* Does the cache quarantine freed buffers? */
static inline bool
debug_has_quarantine(const struct umem_cache *cache)
{
	return (cache->debug & (UMF_HARDENED | UMF_DEADBEEF)) != 0;
}

static inline void
debug_stamp(const struct umem_cache *cache, struct bufctl *bufctl)
{
	if ((cache->debug & UMF_AUDIT) != 0)
		audit_stamp((struct bufctl_audit *)(void *)bufctl);
}

/*
 * Begin and end an allocation or a resize: change the sequence number, which is
 * odd in between.  In a child of fork() that interrupted another thread here it
 * stays odd until the next allocation.
 */
static inline void
debug_change_begin(struct bufctl *bufctl)
{
	uint32_t sum = load_relaxed(&bufctl->sum);

	store_relaxed(&bufctl->sum, sum | 1);
	/* Before the writes of the change; see exit_check.c. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void
debug_change_end(struct bufctl *bufctl)
{
	uint32_t sum = load_relaxed(&bufctl->sum);

	store_release(&bufctl->sum, sum + 1);
}

/* Reports an error of the buffer. */
void debug_report(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info);

/*
 * Reports an error of a buffer that was allocated before, and retires it
 * (BUFCTL_RETIRED): it is not allocated again.  Returns false.
 */
bool debug_retire(
    enum error_code code, struct bufctl *bufctl, struct error_info info);

/*
 * Are the redzone and the tag of an allocated buffer intact?  Reports an error
 * if not.
 */
bool debug_redzone_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl);

/*
 * Is the buffer, if it is allocated, intact behind its size?  Stores the error
 * in info if not.  Other threads may free or resize it meanwhile.  The caller
 * holds the lock of the slabs, and info is all zeros; see exit_check.c.
 */
bool debug_live_is_intact(const struct umem_cache *cache, struct bufctl *bufctl,
    struct error_info *info);

/*
 * Checks the end of the chunk before a buffer, if there is one.  If the end is
 * not intact, reports a write past the end of that chunk or before the start of
 * the buffer, retires the buffer, and returns false.
 */
bool debug_previous_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl);

/*
 * Writes the redzone and the tag of an allocated buffer, of the size in its
 * bufctl.
 */
void debug_write_redzone(const struct umem_cache *cache, struct bufctl *bufctl);

/* Are bytes and tag of a free buffer intact?  Reports an error if not. */
bool debug_free_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p);

/*
 * Does a buffer still hold the pattern that it got when it was allocated?
 * Reports an error if not.
 */
bool debug_uninit_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p);

/*
 * Write the patterns and the tag of a free and of an allocated buffer.
 * debug_make_allocated() fills the bufctl, too.
 */
void debug_make_free(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p);
void debug_make_allocated(struct umem_cache *cache, struct slab *slab,
    struct bufctl *bufctl, void *p, size_t size, unsigned api);

/* Reports an allocation in a signal handler, if UMEM_DEBUG asks for that. */
void debug_check_signal(const struct umem_cache *cache);

/*
 * Called when a buffer begins to wait for a grace period, and when its wait is
 * over.  The first function stores a checksum of the buffer's bytes.  The
 * second reports a buffer if its bytes, its redzone or its tag have changed
 * since.
 */
void debug_wait_begin(const struct umem_cache *cache, struct bufctl *bufctl);
bool debug_wait_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl);

/* Returns the bufctl of a large block; NULL: its tag is not intact. */
struct bufctl *debug_large_peek(const void *p);

/* Returns the bufctl of a large block, or NULL after a report. */
struct bufctl *debug_large_bufctl(const void *p);

/*
 * Releases a large block that is free, and keeps its bufctl, which has the
 * thread and the stack of the free.
 */
void debug_large_release(struct bufctl *bufctl);

/*
 * Makes the pages up to a new size of a large block accessible.  Returns false
 * if the block must move.  debug_large_guard() makes the pages behind the block
 * inaccessible, unless the kernel refuses.
 */
bool debug_large_open(const struct bufctl *bufctl, size_t size);
void debug_large_guard(const struct bufctl *bufctl);

#endif
