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
#include "umem/debug/error.h"
#include "umem/debug/wait_sum.h"
#include "vmem/os.h"

/* Reads bytes that another thread may write to. */
#define unchecked __attribute__((no_sanitize("thread")))

#define PATTERN_END_WORD (PATTERN_END * 0x0101010101010101ull)

/* Reports an error of the buffer. */
void
debug_report(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info)
{
	info.code = code;
	info.address = p;
	info.cache = (struct umem_cache *)(uintptr_t)cache;
	info.bufctl = bufctl;
	if (bufctl != NULL && info.buffer == NULL)
		info.buffer = bufctl->addr;
	if (bufctl != NULL)
		info.slab = bufctl->slab;
	if (info.buffer == NULL)
		info.buffer = p;
	error_report(&info);
}

static struct umem_cache *
cache_of(const struct bufctl *bufctl)
{
	return bufctl->slab == NULL ? &debug_large_cache
				    : container_of(bufctl->slab->store,
					  struct umem_cache, slabs);
}

bool
debug_retire(
    enum error_code code, struct bufctl *bufctl, struct error_info info)
{
	umem_assert(bufctl->state != BUFCTL_NEVER);
	info.deferred = bufctl->state == BUFCTL_WAITING;
	debug_report(code, cache_of(bufctl), bufctl, bufctl->addr, info);
	store_relaxed(&bufctl->state, BUFCTL_RETIRED);
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
	if (n != 0 && word[0] == pattern && memcmp(word, word + 1, n - 8) == 0)
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
tag_has_state(const struct umem_cache *cache, const struct buftag *tag,
    const struct bufctl *bufctl, uintptr_t state, uintptr_t other)
{
	uintptr_t found;

	if (cache->tag_bytes < sizeof(*tag))
		return true;
	found = load_relaxed(&tag->bxstat) ^ (uintptr_t)bufctl;
	return load_relaxed(&tag->bufctl) == bufctl &&
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

/* Returns the value of the redzone of an allocated buffer of this size. */
static uint64_t
redzone_value(const struct umem_cache *cache, size_t size)
{
	if (cache->class == 0)
		return PATTERN_REDZONE;
	return (PATTERN_REDZONE & UINT32_MAX) | (uint64_t)REDZONE_ENCODE(size)
						    << 32;
}

/*
 * Offsets of the bytes behind the size that hold PATTERN_END.  They reach up to
 * the tag; or there are two ranges, one up to the end of the size's page and
 * one from the start of the tag's page.  A large block may lack the pages in
 * between (debug_large.c).
 */
struct slack {
	size_t from[2];
	size_t to[2];
};

static struct slack
slack_of_size(const struct umem_cache *cache, const void *p, size_t size)
{
	size_t end = debug_tag_offset(cache, p);
	size_t page = os_page_size();

	umem_assert(size <= end);
	if (!cache->checks_slack)
		end = size;
	if (cache->class != PAGE_MAP_LARGE ||
	    align_up(size, page) >= align_down(end, page))
		return (struct slack){{size, end}, {end, end}};
	return (struct slack){
	    {size, align_down(end, page)}, {align_up(size, page), end}};
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
redzone_find_change(
    const struct umem_cache *cache, const struct bufctl *bufctl, size_t size)
{
	const volatile unsigned char *byte = bufctl->addr;
	const struct buftag *tag = debug_tag(cache, bufctl->addr);
	uint64_t redzone = redzone_value(cache, size);
	struct slack slack = slack_of_size(cache, bufctl->addr, size);
	size_t tag_offset = debug_tag_offset(cache, bufctl->addr);

	for (unsigned part = 0; part < array_size(slack.from); part++)
		for (size_t i = slack.from[part]; i < slack.to[part]; i++)
			if (byte[i] != PATTERN_END)
				return i;
	if (tag == NULL || load_relaxed(&tag->redzone) == redzone)
		return SIZE_MAX;
	for (size_t i = 0; i < sizeof(redzone); i++)
		if (byte[tag_offset + i] != ((unsigned char *)&redzone)[i])
			return tag_offset + i;
	return SIZE_MAX;
}

/*
 * Compares the slack of a buffer of this size, its tag and the padding.
 * Returns whether they are intact; otherwise fills info with the error.  Other
 * threads may write to these bytes in debug_live_is_intact(), which then
 * discards the result.
 */
static unchecked bool
tail_is_intact(const struct umem_cache *cache, const struct bufctl *bufctl,
    size_t size, struct error_info *info)
{
	const struct buftag *tag = debug_tag(cache, bufctl->addr);
	size_t offset = redzone_find_change(cache, bufctl, size);

	if (offset == SIZE_MAX && tag != NULL) {
		if (!tag_has_state(cache, tag, bufctl, BUFTAG_ALLOCATED,
			BUFTAG_ALLOCATED)) {
			*info = tag_error(tag, BUFTAG_ALLOCATED);
			return false;
		}
		offset = padding_find_change(cache, tag);
	}
	if (offset == SIZE_MAX)
		return true;
	*info = (struct error_info){.code = UMERR_REDZONE, .offset = offset};
	return false;
}

bool
debug_redzone_is_intact(const struct umem_cache *cache, struct bufctl *bufctl)
{
	struct error_info info;

	return tail_is_intact(cache, bufctl, bufctl->size, &info) ||
	       debug_retire((enum error_code)info.code, bufctl, info);
}

/*
 * Writes the tag of a buffer.  The stores are atomic, because a thread that
 * checks the next buffer may read this tag at the same time (see
 * tag_is_plausible()).
 */
static void
tag_write(const struct umem_cache *cache, struct buftag *tag, uint64_t redzone,
    struct bufctl *bufctl, uintptr_t state)
{
	store_relaxed(&tag->redzone, redzone);
	if (cache->tag_bytes < sizeof(*tag))
		return;
	store_relaxed(&tag->bufctl, bufctl);
	store_relaxed(&tag->bxstat, (uintptr_t)bufctl ^ state);
}

/*
 * Checks the tag of the buffer before p.  The owner of that buffer may free or
 * allocate it at this moment.  Therefore only words are compared that no
 * transaction changes: the lower half of the redzone and the pointer to the
 * bufctl.  The state must be one of two values, and the upper half of the
 * redzone that of a free buffer or one that encodes a size.
 */
static bool
tag_is_plausible(const struct umem_cache *cache, const struct buftag *tag,
    const struct bufctl *bufctl)
{
	uint64_t redzone = load_relaxed(&tag->redzone);
	uint32_t upper = redzone >> 32;

	return (uint32_t)redzone == (uint32_t)PATTERN_REDZONE &&
	       (upper == PATTERN_REDZONE >> 32 ||
		   (cache->class != 0 &&
		       upper % REDZONE_FACTOR == REDZONE_ADDEND &&
		       upper / REDZONE_FACTOR <= cache->tag_offset)) &&
	       tag_has_state(cache, tag, bufctl, BUFTAG_ALLOCATED, BUFTAG_FREE);
}

bool
debug_live_is_intact(const struct umem_cache *cache, struct bufctl *bufctl,
    struct error_info *info)
{
	uint32_t sum;
	size_t size;

	/* Acquire; pairs with the release in debug_make_allocated(). */
	if (load_acquire(&bufctl->state) != BUFCTL_ALLOCATED)
		return true;
	/* Acquire; pairs with the release in debug_change_end(). */
	sum = load_acquire(&bufctl->sum);
	size = load_relaxed(&bufctl->size);
	if ((sum & 1) != 0 || size > cache->tag_offset ||
	    tail_is_intact(cache, bufctl, size, info))
		return true;
	/* Pairs with the release fences of a free and of a change. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	/* Acquire; pairs with the release in debug_make_allocated(). */
	if (load_acquire(&bufctl->state) != BUFCTL_ALLOCATED ||
	    load_relaxed(&bufctl->sum) != sum)
		return true;
	info->at_exit = 1;
	info->cache = (struct umem_cache *)(uintptr_t)cache;
	info->bufctl = bufctl;
	return false;
}

/*
 * Was an allocated buffer overrun, up to the next buffer?  A write before the
 * start of the next buffer changes the same bytes, from their end on.  So if
 * the first byte that has changed is in the tag, behind bytes that are intact,
 * it was such a write.  Stores that byte in info.
 */
static bool
buffer_is_overrun(const struct umem_cache *cache, const struct bufctl *bufctl,
    struct error_info *info)
{
	/* Acquire; pairs with the release in debug_make_allocated(). */
	unsigned state = load_acquire(&bufctl->state);

	if (state != BUFCTL_ALLOCATED && state != BUFCTL_WAITING)
		return false;
	info->offset = redzone_find_change(cache, bufctl, bufctl->size);
	return info->offset < cache->tag_offset ||
	       (info->offset == cache->tag_offset &&
		   bufctl->size == cache->tag_offset);
}

/*
 * Reports that the buffer before p was overrun, if it was, and retires p, of
 * which bufctl is.  A free of the buffer before reports it, too.
 */
static bool
overrun_is_reported(struct bufctl *bufctl, struct bufctl *before)
{
	const struct umem_cache *cache = cache_of(bufctl);
	struct error_info info = {.behind = bufctl->addr};

	if (!buffer_is_overrun(cache, before, &info))
		return false;
	debug_report(UMERR_REDZONE, cache, before, before->addr, info);
	store_relaxed(&bufctl->state, BUFCTL_RETIRED);
	return true;
}

/* Returns the bufctl of the chunk before; NULL: there is none. */
static struct bufctl *
bufctl_before(const struct umem_cache *cache, const struct bufctl *bufctl)
{
	const struct slab *slab = bufctl->slab;

	if (slab == NULL || (const void *)bufctl == slab->records)
		return NULL;
	return (struct bufctl *)((uintptr_t)bufctl - cache->slabs.record_bytes);
}

bool
debug_previous_is_intact(const struct umem_cache *cache, struct bufctl *bufctl)
{
	struct bufctl *before = bufctl_before(cache, bufctl);
	uintptr_t p = (uintptr_t)bufctl->addr;
	const struct buftag *tag;
	unsigned state;

	if (before == NULL)
		return true;
	/* Acquire; pairs with the release in debug_make_allocated(). */
	state = load_acquire(&before->state);
	tag = debug_tag(cache, (void *)(p - cache->slabs.layout.chunk));
	if (tag == NULL || state == BUFCTL_NEVER || state == BUFCTL_RETIRED ||
	    (tag_is_plausible(cache, tag, before) &&
		padding_find_change(cache, tag) == SIZE_MAX))
		return true;
	return !overrun_is_reported(bufctl, before) &&
	       debug_retire(UMERR_BEFORE, bufctl,
		   (struct error_info){
		       .before = before, .expected = p - (uintptr_t)tag});
}

/*
 * Returns how many bytes the checksum covers; 0: writes are permitted, or not
 * checked.
 */
static size_t
wait_sum_bytes(const struct umem_cache *cache, const struct bufctl *bufctl)
{
	if ((cache->debug & (UMF_DEADBEEF | UMF_RCU_WRITES)) != UMF_DEADBEEF)
		return 0;
	return size_min(
	    size_min(bufctl->size, WAIT_SUM_BYTES), debug.verify_max);
}

void
debug_wait_begin(const struct umem_cache *cache, struct bufctl *bufctl)
{
	size_t n = wait_sum_bytes(cache, bufctl);

	umem_assert(bufctl->state == BUFCTL_WAITING);
	/* A hardened buffer keeps its number; see exit_check.c. */
	if (n != 0)
		bufctl->sum = wait_sum(bufctl->addr, n);
}

bool
debug_wait_is_intact(const struct umem_cache *cache, struct bufctl *bufctl)
{
	size_t n = wait_sum_bytes(cache, bufctl);

	umem_assert(bufctl->state == BUFCTL_WAITING);
	if (!debug_redzone_is_intact(cache, bufctl))
		return false;
	return n == 0 || wait_sum(bufctl->addr, n) == bufctl->sum ||
	       debug_retire(
		   UMERR_WAITMOD, bufctl, (struct error_info){.expected = n});
}

void
debug_write_redzone(const struct umem_cache *cache, struct bufctl *bufctl)
{
	char *p = bufctl->addr;
	struct buftag *tag = debug_tag(cache, p);
	struct slack slack = slack_of_size(cache, p, bufctl->size);

	for (unsigned part = 0; part < array_size(slack.from); part++)
		memset(p + slack.from[part], PATTERN_END,
		    slack.to[part] - slack.from[part]);
	if (tag != NULL)
		tag_write(cache, tag, redzone_value(cache, bufctl->size),
		    bufctl, BUFTAG_ALLOCATED);
}

/* Reports that a free buffer was modified, at the offset in info. */
static bool
report_modified(struct bufctl *bufctl, struct error_info info)
{
	const struct umem_cache *cache = cache_of(bufctl);
	struct bufctl *before = bufctl_before(cache, bufctl);

	/* A write past the end of the buffer before begins there. */
	return (info.offset != 0 || before == NULL || cache->tag_bytes == 0 ||
		   !overrun_is_reported(bufctl, before)) &&
	       debug_retire(UMERR_MODIFIED, bufctl, info);
}

bool
debug_free_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p)
{
	struct error_info info;
	const struct buftag *tag = debug_tag(cache, p);

	if (!pattern_is_intact(
		p, cache->pattern_bytes, cache->free_pattern, &info))
		return report_modified(bufctl, info);
	if (tag == NULL)
		return true;
	if (!pattern_is_intact(
		&tag->redzone, sizeof(tag->redzone), PATTERN_REDZONE, &info)) {
		info.offset = cache->tag_offset;
		return debug_retire(UMERR_MODIFIED, bufctl, info);
	}
	return tag_has_state(cache, tag, bufctl, BUFTAG_FREE, BUFTAG_FREE) ||
	       debug_retire(
		   UMERR_BADBUFTAG, bufctl, tag_error(tag, BUFTAG_FREE));
}

bool
debug_uninit_is_intact(
    const struct umem_cache *cache, struct bufctl *bufctl, void *p)
{
	struct error_info info;

	/* A constructor has written to the buffer, or there is no pattern. */
	return debug_is_hardened(cache) || cache->construct != NULL ||
	       pattern_is_intact(
		   p, cache->pattern_bytes, PATTERN_UNINIT, &info) ||
	       debug_retire(UMERR_EARLY, bufctl, info);
}

void
debug_make_free(const struct umem_cache *cache, struct bufctl *bufctl, void *p)
{
	struct buftag *tag = debug_tag(cache, p);

	umem_assert(bufctl->addr == p);
	umem_assert(bufctl->state != BUFCTL_RETIRED);
	pattern_fill(p, cache->pattern_bytes, cache->free_pattern);
	if (tag != NULL)
		tag_write(cache, tag, PATTERN_REDZONE, bufctl, BUFTAG_FREE);
}

void
debug_make_allocated(struct umem_cache *cache, struct slab *slab,
    struct bufctl *bufctl, void *p, size_t size, unsigned api)
{
	umem_assert(bufctl->state == BUFCTL_NEVER || bufctl->addr == p);
	umem_assert(size <= debug_tag_offset(cache, p) && api < API_COUNT);
	/*
	 * A hardened buffer is already zero, because its free pattern was
	 * checked.
	 */
	if (!debug_is_hardened(cache) || bufctl->state == BUFCTL_NEVER)
		pattern_fill(p, cache->pattern_bytes,
		    debug_is_hardened(cache) ? 0 : PATTERN_UNINIT);
	if (bufctl->state == BUFCTL_NEVER && cache->tag_bytes != 0) {
		size_t bytes;
		uint64_t *padding =
		    padding_of_tag(cache, debug_tag(cache, p), &bytes);

		pattern_fill(padding, bytes, PATTERN_END_WORD);
	}
	debug_change_begin(bufctl);
	bufctl->addr = p;
	bufctl->slab = slab;
	store_relaxed(&bufctl->size, size);
	bufctl->api = (uint8_t)api;
	if (cache->slabs.record_bytes != sizeof(*bufctl))
		((struct bufctl_audit *)(void *)bufctl)->cache = cache;
	debug_write_redzone(cache, bufctl);
	debug_change_end(bufctl);
	store_release(&bufctl->state, BUFCTL_ALLOCATED);
	debug_stamp(cache, bufctl);
}
