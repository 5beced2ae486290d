/*
 * debug_large.c - large blocks that are checked
 *
 * A large block has a span of its own.  The tag is at the end of the span,
 * bytes of 0xbb follow the size up to the end of its page, and the bufctl is
 * allocated separately.  With guards and in hardened mode the span ends with a
 * guard page, and the whole pages between the block and the page of the tag are
 * inaccessible, too.  Blocks above a unit of the heap are then large blocks, so
 * that the pages of all of them are released when they are freed.  freed.c
 * keeps the bufctls of the blocks that were freed last.  The addresses of a
 * block are not reused until its bufctl leaves that ring.
 *
 * Inaccessible pages take up to four of the mappings that a process may have
 * (65530) for each block.  Therefore a new block has none while there are more
 * than GUARDED_MAX blocks.
 *
 * debug_large_cache stands for all large blocks.
 */
#include <string.h>

#include "umem/base/page_map.h"
#include "umem/debug/debug_inner.h"
#include "umem/debug/error.h"
#include "umem/debug/freed.h"
#include "umem/base/large.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"

struct umem_cache debug_large_cache = {.name = "umem_oversize"};

#define GUARDED_MAX 8192

bool
debug_large(void)
{
	return debug_large_cache.debug != 0;
}

void
debug_start(void)
{
	debug_large_cache.bufsize = SIZE_CLASS_MAX + 1;
	debug_large_cache.align = HEAP_UNIT;
	debug_large_cache.class = PAGE_MAP_LARGE;
	debug_plan(&debug_large_cache, debug_large_cache.name, true);
	/* The pages of a free block have no memory. */
	debug_large_cache.pattern_bytes = 0;
	if (debug_large_cache.debug != 0) {
		debug_large_cache.debug |= UMF_REDZONE;
		debug_large_cache.checks_slack = true;
		debug_large_cache.tag_bytes = sizeof(struct buftag);
		debug_large_cache.has_inner_tags = false;
	}
}

bool
debug_has_guards(void)
{
	for (unsigned i = 0; i < debug.nchoices; i++)
		if ((debug.choice[i].flags & UMF_FIREWALL) != 0)
			return true;
	return debug_has_quarantine(&debug_large_cache);
}

/*
 * Bytes of the guard page behind a large block that is quarantined when it is
 * freed; 0: none.
 */
static size_t
large_guard_bytes(void)
{
	return debug_has_quarantine(&debug_large_cache) ? os_page_size() : 0;
}

/* Returns the bytes that a large block takes, with its tag and guard page. */
static size_t
large_total_bytes(size_t size)
{
	return size + sizeof(struct buftag) + large_guard_bytes();
}

/*
 * Quarantines a freed large block: removes it from the page map and releases
 * its pages.  The span is not reused while its bufctl is in the ring.
 */
static void
large_quarantine(void *p)
{
	size_t bytes = page_map_large_bytes(page_map_owner(p));

	large_unregister(p, bytes);
	account_add(&account.quarantined, bytes);
	if (!os_decommit(p, bytes))
		os_purge(p, bytes);
}

/*
 * Ends the quarantine of a block.  If there is no memory for page tables, its
 * addresses are lost.
 */
static void
large_quarantine_end(const struct bufctl_audit *bufctl)
{
	size_t bytes = align_up(large_total_bytes(bufctl->size), HEAP_UNIT);

	if (debug_has_quarantine(&debug_large_cache) &&
	    os_commit(bufctl->addr, bytes)) {
		account_sub(&account.quarantined, bytes);
		heap_free(bufctl->addr, bytes);
	}
}

/* Puts the bufctl into the ring of freed blocks. */
static void
large_remember_freed(struct bufctl_audit *bufctl)
{
	struct bufctl_audit *old;

	umem_assert(bufctl->head.state == BUFCTL_FREE);
	old = freed_put(&freed_large, bufctl);
	if (old == NULL)
		return;
	large_quarantine_end(old);
	meta_free(old, bufctl_audit_bytes(debug.nframes));
}

size_t
debug_large_tag_offset(const void *p)
{
	size_t bytes = page_map_large_bytes(page_map_owner(p));

	umem_assert(debug_large() && bytes >= large_total_bytes(0));
	return bytes - large_guard_bytes() - sizeof(struct buftag);
}

/* Returns the whole pages between the block and the page of its tag. */
static char *
large_gap(const struct buffer *b, size_t *bytes)
{
	uintptr_t p = (uintptr_t)b->p;
	uintptr_t from = align_up(p + debug_size(b), os_page_size());
	uintptr_t to =
	    align_down(p + debug_large_tag_offset(b->p), os_page_size());

	*bytes = from < to ? to - from : 0;
	return (char *)from;
}

void
debug_large_guard(const struct buffer *b)
{
	char *p = b->p, *gap;
	size_t bytes = page_map_large_bytes(page_map_owner(p)), n;

	if (!debug_has_quarantine(&debug_large_cache) ||
	    large_count() > GUARDED_MAX)
		return;
	os_decommit(p + bytes - large_guard_bytes(), large_guard_bytes());
	gap = large_gap(b, &n);
	if (n != 0)
		os_decommit(gap, n);
}

/* Fills a new block: with zeros, or with the pattern of smaller blocks. */
static void
large_fill(const struct bufctl_audit *bufctl, bool *zeroed)
{
	char *p = bufctl->addr;

	if (debug_is_hardened(&debug_large_cache) ||
	    bufctl->size > SIZE_CLASS_MAX) {
		if (!*zeroed && !os_purge(p, bufctl->size))
			memset(p, 0, bufctl->size);
		*zeroed = true;
	} else {
		for (size_t i = 0; i + 8 <= bufctl->size; i += 8)
			*(uint64_t *)(void *)(p + i) = PATTERN_UNINIT;
		*zeroed = false;
	}
}

void *
debug_large_alloc(size_t size, size_t align, bool *zeroed, unsigned api)
{
	struct bufctl_audit *bufctl;
	struct buffer b;
	void *p;

	if (size > PTRDIFF_MAX - MIB)
		return NULL;
	debug_check_signal(&debug_large_cache);
	bufctl = meta_alloc(bufctl_audit_bytes(debug.nframes));
	if (bufctl == NULL)
		return NULL;
	p = large_alloc(large_total_bytes(size), align, zeroed);
	if (p == NULL) {
		meta_free(bufctl, bufctl_audit_bytes(debug.nframes));
		return NULL;
	}
	bufctl->addr = p;
	bufctl->size = size;
	if (debug_has_quarantine(&debug_large_cache))
		large_fill(bufctl, zeroed);
	b = debug_large_buffer(bufctl);
	debug_make_allocated(&b, size, api);
	return p;
}

struct bufctl_audit *
debug_large_peek(const void *p)
{
	const struct buftag *tag = debug_tag(&debug_large_cache, p);

	umem_assert(tag != NULL);
	return tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_ALLOCATED)
		   ? (void *)tag->bufctl
		   : NULL;
}

bool
debug_large_find(void *p, struct buffer *b)
{
	const struct buftag *tag = debug_tag(&debug_large_cache, p);
	struct error_info info = {0};

	umem_assert(tag != NULL);
	/* A thread may be freeing it now; change_state() tells this one. */
	if (debug_large_peek(p) != NULL ||
	    tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_FREE)) {
		*b = debug_large_buffer((void *)tag->bufctl);
		if (b->p == p)
			return true;
	}
	info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
	info.expected = BUFTAG_ALLOCATED;
	debug_report(UMERR_BADBUFTAG, &debug_large_cache, NULL, p, info);
	return false;
}

void
debug_large_release(const struct buffer *b)
{
	if (debug_has_quarantine(&debug_large_cache))
		large_quarantine(b->p);
	else
		large_free(b->p, page_map_large_bytes(page_map_owner(b->p)));
	large_remember_freed(debug_audit(b));
}

/*
 * Enlarges the span of a block whose gap is accessible, from bytes to wanted.
 * Returns false if the units behind it are not free or there is no memory.
 */
static bool
large_extend(const struct buffer *b, size_t bytes, size_t wanted)
{
	char *end = (char *)b->p + bytes;
	size_t guard = large_guard_bytes();
	bool zeroed;

	if ((guard != 0 && !os_commit(end - guard, guard)) ||
	    !large_grow(b->p, bytes, wanted, &zeroed))
		return false;
	if (!zeroed && !os_purge(end, wanted - bytes))
		memset(end, 0, wanted - bytes);
	return true;
}

bool
debug_large_open(const struct buffer *b, size_t size)
{
	char *p = b->p, *gap;
	size_t gap_bytes, old = debug_size(b);
	size_t bytes = page_map_large_bytes(page_map_owner(p));
	size_t wanted = align_up(large_total_bytes(size), HEAP_UNIT);

	if (wanted < bytes)
		return false;
	gap = large_gap(b, &gap_bytes);
	if (gap_bytes != 0 && !os_commit(gap, gap_bytes))
		return false;
	if (wanted > bytes && !large_extend(b, bytes, wanted)) {
		debug_large_guard(b);
		return false;
	}
	/*
	 * The gap is zero now, and so are the bytes behind the old span.  The
	 * slack and the tag between are not.
	 */
	if (size > old)
		memset(p + old, 0, size_min(size, bytes) - old);
	return true;
}
