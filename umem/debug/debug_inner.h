/*
 * debug_inner.h - declarations shared by the files of debugging; see debug.c
 *
 * debug_plan.c selects a cache's checks, debug_buffer.c writes and checks the
 * contents and the redzone of a buffer, debug_large.c has the large blocks.
 */
#ifndef UMEM_DEBUG_INNER_H
#define UMEM_DEBUG_INNER_H

#include "umem/base/page_map.h"
#include "umem/debug/audit.h"
#include "umem/debug/debug.h"
#include "umem/debug/error.h"
#include "vmem/panic.h"

/* Reads bytes that another thread may write to. */
#define unchecked __attribute__((no_sanitize("thread")))

#define PATTERN_END_WORD (PATTERN_END * 0x0101010101010101ull)

/* A buffer, its bufctl, and the cache and the slab that contain it. */
struct buffer {
	struct umem_cache *cache;
	struct slab *slab; /* NULL: a large block */
	struct bufctl *bufctl;
	void *p;
};

/* Returns the whole bufctl; NULL: that of a hardened cache has no more. */
static inline struct bufctl_audit *
debug_audit(const struct buffer *b)
{
	return b->cache->slabs.record_bytes == sizeof(*b->bufctl)
		   ? NULL
		   : (void *)b->bufctl;
}

/* Returns the bytes requested. */
static inline size_t
debug_size(const struct buffer *b)
{
	const struct bufctl_audit *audit = debug_audit(b);

	return audit != NULL ? load_relaxed(&audit->size)
			     : load_relaxed(&b->bufctl->size);
}

/* Describes chunk i of a slab. */
static inline struct buffer
debug_buffer_at(struct umem_cache *cache, struct slab *slab, size_t i)
{
	umem_assert(i < cache->slabs.layout.nchunks);
	return (struct buffer){cache, slab, slab_record(slab, i),
	    (void *)(slab->first + i * cache->slabs.layout.chunk)};
}

/*
 * Describes the buffer at p.  False: there is none, or its slab is not of the
 * heap.
 */
static inline bool
debug_heap_buffer(struct umem_cache *cache, void *p, struct buffer *b)
{
	const struct slab_layout *layout = &cache->slabs.layout;
	struct slab *slab = page_map_owner(p);
	size_t i;

	if (unlikely(slab == NULL || page_map_large_bytes(slab) != 0 ||
		     slab->store != &cache->slabs))
		return false;
	i = slab_layout_index(layout, (uintptr_t)p - slab->first);
	if (unlikely(i >= layout->nchunks ||
		     (uintptr_t)p != slab->first + i * layout->chunk))
		return false;
	*b = debug_buffer_at(cache, slab, i);
	return true;
}

/* Describes a buffer that the library has. */
static inline struct buffer
debug_buffer_of(struct umem_cache *cache, void *p)
{
	struct buffer b;
	unsigned i;

	if (unlikely(!debug_heap_buffer(cache, p, &b))) {
		slab_find_chunk(&cache->slabs, p, &b.slab, &i);
		b = debug_buffer_at(cache, b.slab, i);
	}
	return b;
}

/* The large block of a bufctl. */
static inline struct buffer
debug_large_buffer(struct bufctl_audit *audit)
{
	return (struct buffer){.cache = &debug_large_cache,
	    .bufctl = &audit->head,
	    .p = audit->addr};
}

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
	uintptr_t tag;

	if (cache->tag_bytes == 0)
		return NULL;
	tag = (uintptr_t)p + debug_tag_offset(cache, p);
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
debug_stamp(const struct buffer *b)
{
	if ((b->cache->debug & UMF_AUDIT) != 0)
		audit_stamp(debug_audit(b));
}

/* Returns the value of the redzone of an allocated buffer of this size. */
static inline uint64_t
debug_redzone(const struct umem_cache *cache, size_t size)
{
	if (cache->class == 0)
		return PATTERN_REDZONE;
	return (PATTERN_REDZONE & UINT32_MAX) | (uint64_t)REDZONE_ENCODE(size)
						    << 32;
}

/*
 * Returns the offset of the first byte of [from, to) that does not hold
 * PATTERN_END; to or more: all do.  to is a multiple of 8.
 */
static inline unchecked size_t
debug_slack_change(const void *p, size_t from, size_t to)
{
	const volatile unsigned char *byte = p;

	while (from % 8 != 0 && from < to && byte[from] == PATTERN_END)
		from++;
	while (from % 8 == 0 && from < to &&
	       *(const volatile uint64_t *)(byte + from) == PATTERN_END_WORD)
		from += 8;
	while (from < to && byte[from] == PATTERN_END)
		from++;
	return from;
}

/*
 * Can this be the redzone of a buffer?  Its owner may free or allocate it at
 * this moment.  Therefore only the lower half is compared, which no transaction
 * changes; the upper half must be that of a free buffer or encode a size.
 */
static inline bool
debug_redzone_is_plausible(const struct umem_cache *cache, const uint64_t *at)
{
	uint64_t redzone = load_relaxed(at);
	uint32_t upper = redzone >> 32;

	return redzone == PATTERN_REDZONE ||
	       ((uint32_t)redzone == (uint32_t)PATTERN_REDZONE &&
		   cache->class != 0 &&
		   upper % REDZONE_FACTOR == REDZONE_ADDEND &&
		   upper / REDZONE_FACTOR <= cache->tag_offset);
}

/*
 * Reports an error of the address p, and of its buffer, if b is not NULL and
 * has a bufctl.
 */
void debug_report(enum error_code code, const struct umem_cache *cache,
    const struct buffer *b, const void *p, struct error_info info);

/*
 * Reports an error of a buffer that was allocated before, and retires it
 * (BUFCTL_RETIRED): it is not allocated again.  Returns false.
 */
bool debug_retire(
    enum error_code code, const struct buffer *b, struct error_info info);

/*
 * Are the redzone and the tag of an allocated buffer intact?  Reports an error
 * if not.
 */
bool debug_redzone_is_intact(const struct buffer *b);

/*
 * Is the buffer, if it is allocated, intact behind its size?  Stores the error
 * in info if not.  Other threads may free or resize it meanwhile.  The caller
 * holds the lock of the slabs, and info is all zeros; see exit_check.c.
 */
bool debug_live_is_intact(const struct buffer *b, struct error_info *info);

/*
 * Checks the end of the chunk before a buffer, if there is one.  If the end is
 * not intact, reports a write past the end of that chunk or before the start of
 * the buffer, retires the buffer, and returns false.
 */
bool debug_previous_is_intact(const struct buffer *b);

/*
 * Stores the size of an allocated buffer, or of one that is about to be: in its
 * bufctl, the redzone and the tag.  The pages behind a large block become
 * inaccessible, unless the kernel refuses.
 */
void debug_set_size(const struct buffer *b, size_t size);

/* Are bytes and tag of a free buffer intact?  Reports an error if not. */
bool debug_free_is_intact(const struct buffer *b);

/*
 * Does a buffer still hold the pattern that it got when it was allocated?
 * Reports an error if not.
 */
bool debug_uninit_is_intact(const struct buffer *b);

/*
 * Write the patterns and the tag of a free and of an allocated buffer.
 * debug_make_allocated() fills the bufctl, too.
 */
void debug_make_free(const struct buffer *b);
void debug_make_allocated(const struct buffer *b, size_t size, unsigned api);

/*
 * Allocates the chunk b, which the caller has taken from its slab or a
 * magazine.  Returns false, after a report, if it was modified while it was
 * free.
 */
bool debug_begin(const struct buffer *b, size_t size, unsigned api);

/*
 * Passes a free buffer to the quarantine, and the one that leaves it to a
 * magazine.  deferred: to its slab, because the cache may be ending meanwhile.
 */
void debug_release(const struct buffer *b, bool deferred);

/* Reports an allocation in a signal handler, if UMEM_DEBUG asks for that. */
void debug_check_signal(const struct umem_cache *cache);

/*
 * Called when a buffer begins to wait for a grace period, and when its wait is
 * over.  The first function stores a checksum of the buffer's bytes.  The
 * second reports a buffer if its bytes, its redzone or its tag have changed
 * since.
 */
void debug_wait_begin(const struct buffer *b);
bool debug_wait_is_intact(const struct buffer *b);

/* Returns the bufctl of a large block; NULL: its tag is not intact. */
struct bufctl_audit *debug_large_peek(const void *p);

/* Finds the bufctl of a large block; false: its tag was reported. */
bool debug_large_find(void *p, struct buffer *b);

/*
 * Releases a large block that is free, and keeps its bufctl, which has the
 * thread and the stack of the free.
 */
void debug_large_release(const struct buffer *b);

/*
 * Makes the pages up to a new size of a large block accessible.  Returns false
 * if the block must move.  debug_large_guard() makes the pages behind the block
 * inaccessible again.
 */
bool debug_large_open(const struct buffer *b, size_t size);
void debug_large_guard(const struct buffer *b);

#endif
