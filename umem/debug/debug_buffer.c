/*
 * debug_buffer.c - contents and redzone of a debugged buffer
 *
 * The library writes patterns when a buffer is freed or allocated, and checks
 * them when it is freed or before it is allocated again.  debug.c describes the
 * layout.  The size requested and the state are read from the bufctl, which the
 * program cannot overrun, and never from the tag.
 */
#include <string.h>

#include "umem/debug/debug_inner.h"
#include "umem/base/page_map.h"
#include "umem/debug/wait_sum.h"
#include "vmem/os.h"

void
debug_report(enum error_code code, const struct umem_cache *cache,
    const struct buffer *b, const void *p, struct error_info info)
{
	info.code = code;
	info.address = p;
	info.cache = (struct umem_cache *)(uintptr_t)cache;
	if (b != NULL && b->bufctl != NULL) {
		info.bufctl = b->bufctl;
		info.audit = debug_audit(b);
		if (info.audit != NULL && info.audit->depth == 0)
			info.audit = NULL;
		info.size = debug_size(b);
		info.slab = b->slab;
	}
	if (info.buffer == NULL)
		info.buffer = info.bufctl != NULL ? b->p : p;
	error_report(&info);
}

bool
debug_retire(
    enum error_code code, const struct buffer *b, struct error_info info)
{
	umem_assert(b->bufctl->state != BUFCTL_NEVER);
	info.deferred = b->bufctl->state == BUFCTL_WAITING;
	debug_report(code, b->cache, b, b->p, info);
	store_relaxed(&b->bufctl->state, BUFCTL_RETIRED);
	return false;
}

static void
pattern_fill(void *p, size_t n, uint64_t pattern)
{
	uint64_t *word = p;

	umem_assert(n % sizeof(*word) == 0);
	umem_assert(n == 0 || (uintptr_t)p % sizeof(*word) == 0);
	if (pattern == 0)
		memset(p, 0, n);
	for (size_t i = 0; pattern != 0 && i < n / sizeof(*word); i++)
		word[i] = pattern;
}

/* Returns the index of the first word that differs; n / 8 if none does. */
static size_t
pattern_find_change(const void *p, size_t n, uint64_t pattern)
{
	const uint64_t *word = p;
	size_t i = 0;

	umem_assert(n % sizeof(*word) == 0);
	umem_assert(n == 0 || (uintptr_t)p % sizeof(*word) == 0);
	/* All words equal the first one if each equals the next. */
	if (n > CACHE_LINE && word[0] == pattern &&
	    memcmp(word, word + 1, n - 8) == 0)
		return n / sizeof(*word);
	while (i < n / sizeof(*word) && word[i] == pattern)
		i++;
	return i;
}

/* Returns false and fills info if a word differs, with the first of them. */
static bool
pattern_is_intact(
    const void *p, size_t n, uint64_t pattern, struct error_info *info)
{
	size_t i = pattern_find_change(p, n, pattern);

	if (i >= n / sizeof(uint64_t))
		return true;
	*info = (struct error_info){.offset = i * sizeof(uint64_t),
	    .expected = pattern,
	    .found = ((const uint64_t *)p)[i]};
	return false;
}

/*
 * Is the state in a tag one of these?  A tag of 8 bytes has none.  The owner of
 * the buffer may change the state at this moment, so it is read once.
 */
static unchecked bool
tag_has_state(const struct buffer *b, const struct buftag *tag, uintptr_t state,
    uintptr_t other)
{
	uintptr_t found;

	if (b->cache->tag_bytes < sizeof(*tag))
		return true;
	found = load_relaxed(&tag->bxstat) ^ (uintptr_t)b->bufctl;
	return load_relaxed(&tag->bufctl) == b->bufctl &&
	       (found == state || found == other);
}

/* Returns the error of a tag that does not have this state. */
static unchecked struct error_info
tag_error(const struct buftag *tag, uintptr_t state)
{
	uintptr_t found =
	    (uintptr_t)load_relaxed(&tag->bufctl) ^ load_relaxed(&tag->bxstat);

	return (struct error_info){
	    .code = found == state ? UMERR_BADBUFCTL : UMERR_BADBUFTAG,
	    .found = found,
	    .expected = state};
}

/*
 * Returns the offset up to which the bytes behind the size hold PATTERN_END:
 * that of the tag, or of the next page.  A large block may lack the pages
 * between them (debug_large.c).
 */
static inline size_t
slack_end(const struct buffer *b, size_t size)
{
	size_t end = debug_tag_offset(b->cache, b->p);

	umem_assert(size <= end && end % 8 == 0);
	if (!b->cache->checks_slack)
		return 0;
	return b->cache->class == PAGE_MAP_LARGE
		   ? size_min(end, align_up(size, os_page_size()))
		   : end;
}

/*
 * Returns the padding between a tag and the next buffer, which exists if the
 * alignment requires it.  The padding holds PATTERN_END from the first
 * allocation on.
 */
static uint64_t *
padding_of_tag(
    const struct umem_cache *cache, const struct buftag *tag, size_t *bytes)
{
	size_t end = cache->tag_offset + cache->tag_bytes;

	*bytes = cache->slabs.layout.chunk < end
		     ? 0
		     : cache->slabs.layout.chunk - end;
	return (uint64_t *)((uintptr_t)tag + cache->tag_bytes);
}

/*
 * Returns the offset of the first word of the padding that a write has changed;
 * SIZE_MAX: none.
 */
static size_t
padding_find_change(const struct umem_cache *cache, const struct buftag *tag)
{
	size_t bytes;
	const uint64_t *padding = padding_of_tag(cache, tag, &bytes);
	size_t i = pattern_find_change(padding, bytes, PATTERN_END_WORD);

	return i < bytes / 8 ? cache->tag_offset + cache->tag_bytes + i * 8
			     : SIZE_MAX;
}

/*
 * Returns the offset of the first byte behind this size, up to the redzone,
 * that has changed; SIZE_MAX: none.
 */
static unchecked size_t
redzone_find_change(const struct buffer *b, size_t size)
{
	const volatile unsigned char *byte = b->p;
	const struct buftag *tag = debug_tag(b->cache, b->p);
	uint64_t redzone = debug_redzone(b->cache, size);
	size_t end = slack_end(b, size),
	       at = debug_slack_change(b->p, size, end);

	if (at < end)
		return at;
	if (tag == NULL || load_relaxed(&tag->redzone) == redzone)
		return SIZE_MAX;
	at = (uintptr_t)tag - (uintptr_t)b->p;
	for (size_t i = 0; i < sizeof(redzone); i++)
		if (byte[at + i] != ((unsigned char *)&redzone)[i])
			return at + i;
	return SIZE_MAX;
}

/*
 * Compares the slack of a buffer of this size, its tag and the padding.
 * Returns whether they are intact; otherwise fills info with the error.  Other
 * threads may write to these bytes in debug_live_is_intact(), which then
 * discards the result.
 */
static unchecked bool
tail_is_intact(const struct buffer *b, size_t size, struct error_info *info)
{
	const struct buftag *tag = debug_tag(b->cache, b->p);
	size_t offset = redzone_find_change(b, size);

	if (offset == SIZE_MAX && tag != NULL) {
		if (!tag_has_state(
			b, tag, BUFTAG_ALLOCATED, BUFTAG_ALLOCATED)) {
			*info = tag_error(tag, BUFTAG_ALLOCATED);
			return false;
		}
		offset = padding_find_change(b->cache, tag);
	}
	if (offset == SIZE_MAX)
		return true;
	*info = (struct error_info){.code = UMERR_REDZONE, .offset = offset};
	return false;
}

bool
debug_redzone_is_intact(const struct buffer *b)
{
	struct error_info info;

	return tail_is_intact(b, debug_size(b), &info) ||
	       debug_retire((enum error_code)info.code, b, info);
}

/*
 * Writes the tag of a buffer.  The stores are atomic, because a thread that
 * checks the next buffer may read this tag at the same time (see
 * debug_redzone_is_plausible()).
 */
static void
tag_write(const struct buffer *b, struct buftag *tag, uint64_t redzone,
    uintptr_t state)
{
	store_relaxed(&tag->redzone, redzone);
	if (b->cache->tag_bytes < sizeof(*tag))
		return;
	store_relaxed(&tag->bufctl, b->bufctl);
	store_relaxed(&tag->bxstat, (uintptr_t)b->bufctl ^ state);
}

bool
debug_live_is_intact(const struct buffer *b, struct error_info *info)
{
	uint16_t number;
	size_t size;

	/* Acquire; pairs with the release of an allocation. */
	if (load_acquire(&b->bufctl->state) != BUFCTL_ALLOCATED)
		return true;
	/* Acquire; pairs with the release in debug_set_size(). */
	number = load_acquire(&b->bufctl->number);
	size = debug_size(b);
	if ((number & 1) != 0 || size > b->cache->tag_offset ||
	    tail_is_intact(b, size, info))
		return true;
	/* Pairs with the release fences of a free and of a change. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	/* Acquire; pairs with the release of an allocation. */
	if (load_acquire(&b->bufctl->state) != BUFCTL_ALLOCATED ||
	    load_relaxed(&b->bufctl->number) != number)
		return true;
	info->at_exit = 1;
	return false;
}

/*
 * Was an allocated buffer overrun, up to the next buffer?  A write before the
 * start of the next buffer changes the same bytes, from their end on.  So if
 * the first byte that has changed is in the tag, behind bytes that are intact,
 * it was such a write.  Stores that byte in info.
 */
static bool
buffer_is_overrun(const struct buffer *b, struct error_info *info)
{
	/* Acquire; pairs with the release of an allocation. */
	unsigned state = load_acquire(&b->bufctl->state);
	size_t size = debug_size(b);

	if (state != BUFCTL_ALLOCATED && state != BUFCTL_WAITING)
		return false;
	info->offset = redzone_find_change(b, size);
	return info->offset < b->cache->tag_offset ||
	       (info->offset == b->cache->tag_offset &&
		   size == b->cache->tag_offset);
}

/*
 * Reports that the buffer before b was overrun, if it was, and retires b.  A
 * free of the buffer before reports it, too.
 */
static bool
overrun_is_reported(const struct buffer *b, const struct buffer *before)
{
	struct error_info info = {.behind = b->p};

	if (!buffer_is_overrun(before, &info))
		return false;
	debug_report(UMERR_REDZONE, b->cache, before, before->p, info);
	store_relaxed(&b->bufctl->state, BUFCTL_RETIRED);
	return true;
}

/* Finds the buffer in the chunk before; false: there is none. */
static inline bool
buffer_before(const struct buffer *b, struct buffer *before)
{
	size_t bytes = b->cache->slabs.record_bytes;

	*before = *b;
	if (b->slab == NULL || (const void *)b->bufctl == b->slab->records)
		return false;
	before->bufctl = (void *)((uintptr_t)b->bufctl - bytes);
	before->p = (void *)((uintptr_t)b->p - b->cache->slabs.layout.chunk);
	return true;
}

bool
debug_previous_is_intact(const struct buffer *b)
{
	struct buffer before;
	const struct buftag *tag;
	unsigned state;

	if (!buffer_before(b, &before))
		return true;
	/* Acquire; pairs with the release of an allocation. */
	state = load_acquire(&before.bufctl->state);
	tag = debug_tag(b->cache, before.p);
	if (tag == NULL || state == BUFCTL_NEVER || state == BUFCTL_RETIRED ||
	    (debug_redzone_is_plausible(b->cache, &tag->redzone) &&
		tag_has_state(&before, tag, BUFTAG_ALLOCATED, BUFTAG_FREE) &&
		padding_find_change(b->cache, tag) == SIZE_MAX))
		return true;
	return !overrun_is_reported(b, &before) &&
	       debug_retire(UMERR_BEFORE, b,
		   (struct error_info){.before = debug_audit(&before),
		       .expected = (uintptr_t)b->p - (uintptr_t)tag});
}

/*
 * Returns how many bytes the checksum covers; 0: writes are permitted, or not
 * checked.
 */
static size_t
wait_sum_bytes(const struct buffer *b)
{
	if ((b->cache->debug & (UMF_DEADBEEF | UMF_RCU_WRITES)) != UMF_DEADBEEF)
		return 0;
	return size_min(
	    size_min(debug_size(b), WAIT_SUM_BYTES), debug.verify_max);
}

void
debug_wait_begin(const struct buffer *b)
{
	size_t n = wait_sum_bytes(b);

	umem_assert(b->bufctl->state == BUFCTL_WAITING);
	if (n != 0)
		debug_audit(b)->sum = wait_sum(b->p, n);
}

bool
debug_wait_is_intact(const struct buffer *b)
{
	size_t n = wait_sum_bytes(b);

	umem_assert(b->bufctl->state == BUFCTL_WAITING);
	if (!debug_redzone_is_intact(b))
		return false;
	return n == 0 || wait_sum(b->p, n) == debug_audit(b)->sum ||
	       debug_retire(
		   UMERR_WAITMOD, b, (struct error_info){.expected = n});
}

/*
 * The number of the bufctl is odd during the change.  In a child of fork() that
 * interrupted another thread here it stays odd until the next allocation.
 */
void
debug_set_size(const struct buffer *b, size_t size)
{
	struct bufctl_audit *audit = debug_audit(b);
	struct buftag *tag = debug_tag(b->cache, b->p);
	uint16_t number = load_relaxed(&b->bufctl->number) | 1;
	size_t end = slack_end(b, size);

	store_relaxed(&b->bufctl->number, number);
	/* Before the writes of the change; see exit_check.c. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (audit != NULL)
		store_relaxed(&audit->size, size);
	else
		store_relaxed(&b->bufctl->size, (uint32_t)size);
	if (b->slab == NULL)
		debug_large_guard(b);
	if (size < end)
		memset((char *)b->p + size, PATTERN_END, end - size);
	if (tag != NULL)
		tag_write(
		    b, tag, debug_redzone(b->cache, size), BUFTAG_ALLOCATED);
	store_release(&b->bufctl->number, (uint16_t)(number + 1));
}

/* Reports that a free buffer was modified, at the offset in info. */
static bool
report_modified(const struct buffer *b, struct error_info info)
{
	struct buffer before;

	/* A write past the end of the buffer before begins there. */
	return (info.offset != 0 || b->cache->tag_bytes == 0 ||
		   !buffer_before(b, &before) ||
		   !overrun_is_reported(b, &before)) &&
	       debug_retire(UMERR_MODIFIED, b, info);
}

bool
debug_free_is_intact(const struct buffer *b)
{
	const struct umem_cache *cache = b->cache;
	const struct buftag *tag = debug_tag(cache, b->p);
	struct error_info info;

	if (!pattern_is_intact(
		b->p, cache->pattern_bytes, cache->free_pattern, &info))
		return report_modified(b, info);
	if (tag == NULL)
		return true;
	if (!pattern_is_intact(
		&tag->redzone, sizeof(tag->redzone), PATTERN_REDZONE, &info)) {
		info.offset = cache->tag_offset;
		return debug_retire(UMERR_MODIFIED, b, info);
	}
	return tag_has_state(b, tag, BUFTAG_FREE, BUFTAG_FREE) ||
	       debug_retire(UMERR_BADBUFTAG, b, tag_error(tag, BUFTAG_FREE));
}

bool
debug_uninit_is_intact(const struct buffer *b)
{
	const struct umem_cache *cache = b->cache;
	struct error_info info;

	/* A constructor has written to the buffer, or there is no pattern. */
	return debug_is_hardened(cache) || cache->construct != NULL ||
	       pattern_is_intact(
		   b->p, cache->pattern_bytes, PATTERN_UNINIT, &info) ||
	       debug_retire(UMERR_EARLY, b, info);
}

void
debug_make_free(const struct buffer *b)
{
	struct buftag *tag = debug_tag(b->cache, b->p);

	umem_assert(b->bufctl->state != BUFCTL_RETIRED);
	pattern_fill(b->p, b->cache->pattern_bytes, b->cache->free_pattern);
	if (tag != NULL)
		tag_write(b, tag, PATTERN_REDZONE, BUFTAG_FREE);
}

/* Fills a buffer that is allocated, and its padding if it is the first time. */
static void
fill_allocated(const struct buffer *b)
{
	const struct umem_cache *cache = b->cache;
	bool is_first = b->bufctl->state == BUFCTL_NEVER;
	uint64_t *padding;
	size_t bytes;

	/*
	 * A hardened buffer is already zero, because its free pattern was
	 * checked.
	 */
	if (!debug_is_hardened(cache) || is_first)
		pattern_fill(b->p, cache->pattern_bytes,
		    debug_is_hardened(cache) ? 0 : PATTERN_UNINIT);
	if (!is_first || cache->tag_bytes == 0)
		return;
	padding = padding_of_tag(cache, debug_tag(cache, b->p), &bytes);
	pattern_fill(padding, bytes, PATTERN_END_WORD);
}

void
debug_make_allocated(const struct buffer *b, size_t size, unsigned api)
{
	struct bufctl_audit *audit = debug_audit(b);

	umem_assert(size <= debug_tag_offset(b->cache, b->p));
	umem_assert(api < API_COUNT);
	fill_allocated(b);
	b->bufctl->api = (uint8_t)api;
	if (audit != NULL) {
		audit->addr = b->p;
		audit->slab = b->slab;
		audit->cache = b->cache;
	}
	debug_set_size(b, size);
	store_release(&b->bufctl->state, BUFCTL_ALLOCATED);
	debug_stamp(b);
}
