/*
 * debug_large.c - large blocks that are checked
 *
 * A large block has a span of its own.  The tag is at the end of the span,
 * bytes of 0xbb follow the size, and the bufctl is allocated separately.  With
 * guards and in hardened mode the span ends with a guard page, and the whole
 * pages between the block and the page of the tag are inaccessible, too.
 * Blocks above a unit of the heap are then large blocks, so that the pages of
 * all of them are released when they are freed.  freed.c keeps the bufctls of
 * the blocks that were freed last.  The addresses of a block are not reused
 * until its bufctl leaves that ring.
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
large_quarantine_end(const struct bufctl *bufctl)
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
large_remember_freed(struct bufctl *bufctl)
{
	struct bufctl *old;

	umem_assert(bufctl->state == BUFCTL_FREE);
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
large_gap(const struct bufctl *bufctl, size_t *bytes)
{
	uintptr_t p = (uintptr_t)bufctl->addr;
	uintptr_t from = align_up(p + bufctl->size, os_page_size());
	uintptr_t to = align_down(
	    p + debug_large_tag_offset(bufctl->addr), os_page_size());

	*bytes = from < to ? to - from : 0;
	return (char *)from;
}

void
debug_large_guard(const struct bufctl *bufctl)
{
	char *p = bufctl->addr, *gap;
	size_t bytes = page_map_large_bytes(page_map_owner(p)), n;

	if (!debug_has_quarantine(&debug_large_cache) ||
	    large_count() > GUARDED_MAX)
		return;
	os_decommit(p + bytes - large_guard_bytes(), large_guard_bytes());
	gap = large_gap(bufctl, &n);
	if (n != 0)
		os_decommit(gap, n);
}

/* Fills a new block: with zeros, or with the pattern of smaller blocks. */
static void
large_fill(const struct bufctl *bufctl, bool *zeroed)
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

bool
debug_is_decommitted(unsigned class)
{
	return size_classes.bytes[class] > HEAP_UNIT &&
	       debug_has_quarantine(&debug_large_cache) &&
	       debug_has_quarantine(class_cache[class]);
}

void *
debug_large_alloc(size_t size, size_t align, bool *zeroed, unsigned api)
{
	struct bufctl *bufctl;
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
	debug_large_guard(bufctl);
	debug_make_allocated(
	    &debug_large_cache, /* slab */ NULL, bufctl, p, size, api);
	return p;
}

struct bufctl *
debug_large_peek(const void *p)
{
	const struct buftag *tag = debug_tag(&debug_large_cache, p);

	umem_assert(tag != NULL);
	return tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_ALLOCATED)
		   ? tag->bufctl
		   : NULL;
}

struct bufctl *
debug_large_bufctl(const void *p)
{
	const struct buftag *tag = debug_tag(&debug_large_cache, p);
	struct error_info info = {0};

	umem_assert(tag != NULL);
	/* A thread may be freeing it now; change_state() tells this one. */
	if ((debug_large_peek(p) != NULL ||
		tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_FREE)) &&
	    tag->bufctl->addr == p)
		return tag->bufctl;
	info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
	info.expected = BUFTAG_ALLOCATED;
	debug_report(UMERR_BADBUFTAG, &debug_large_cache, NULL, p, info);
	return NULL;
}

void
debug_large_release(struct bufctl *bufctl)
{
	void *p = bufctl->addr;

	if (debug_has_quarantine(&debug_large_cache))
		large_quarantine(p);
	else
		large_free(p, page_map_large_bytes(page_map_owner(p)));
	large_remember_freed(bufctl);
}

bool
debug_large_open(const struct bufctl *bufctl, size_t size)
{
	char *p = bufctl->addr, *gap;
	size_t gap_bytes;

	if (align_up(large_total_bytes(size), HEAP_UNIT) !=
	    page_map_large_bytes(page_map_owner(p)))
		return false;
	gap = large_gap(bufctl, &gap_bytes);
	if (gap_bytes != 0 && !os_commit(gap, gap_bytes))
		return false;
	/*
	 * The pages are accessible again and zero, except for the last page of
	 * the block.
	 */
	if (size > bufctl->size)
		memset(p + bufctl->size, 0, size - bufctl->size);
	return true;
}
