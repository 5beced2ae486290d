/*
 * debug_large.c - large blocks that are checked
 *
 * A large block has a span of its own.  The tag is at the end of the span,
 * bytes of 0xbb follow the size, and the bufctl is allocated separately.  With
 * guards and in hardened mode the span ends with a guard page, and the whole
 * pages between the block and the page of the tag are inaccessible, too.
 * Blocks above DECOMMIT_MIN are then large blocks, so that the pages of all
 * of them are released when they are freed.  freed.c keeps the bufctls of the
 * blocks that were freed last.  The addresses of a block are not reused until
 * its bufctl leaves that ring.
 *
 * Inaccessible pages take up to four of the mappings that a process may have
 * (65530) for each block.  Therefore a new block has none while there are more
 * than GUARDED_MAX blocks.
 *
 * debug_large_cache stands for all large blocks; large_view() is a copy of it
 * with the offset of one block's tag.
 */
#include <string.h>

#include "umem/debug/described.h"
#include "umem/base/page_map.h"
#include "umem/debug/debug_inner.h"
#include "umem/debug/error.h"
#include "umem/debug/freed.h"
#include "umem/base/large.h"
#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"

struct umem_cache debug_large_cache = {.name = "umem_oversize"};

#define DECOMMIT_MIN (64 * KIB)
#define GUARDED_MAX  8192

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
	if (debug_large_cache.debug != 0) {
		debug_large_cache.debug |= UMF_REDZONE;
		debug_large_cache.checks_slack = true;
		debug_large_cache.tagged =
		    (debug_large_cache.debug & UMF_FIREWALL) == 0;
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

static struct buftag *
large_tag(const void *p)
{
	size_t bytes = page_map_large_bytes(page_map_owner(p));

	umem_assert(bytes >= large_total_bytes(0));
	return (struct buftag *)(uintptr_t)((const char *)p + bytes -
					    large_guard_bytes() -
					    sizeof(struct buftag));
}

/* Returns a copy of the cache that has the offset of this block's tag. */
static struct umem_cache
large_view(const void *p)
{
	struct umem_cache view = debug_large_cache;

	umem_assert(debug_large());
	view.tag_offset = (uintptr_t)large_tag(p) - (uintptr_t)p;
	return view;
}

static void
large_write_redzone(struct bufctl *bufctl)
{
	struct umem_cache view = large_view(bufctl->addr);

	umem_assert(bufctl->size <= view.tag_offset);
	debug_write_redzone(
	    &view, bufctl, bufctl->addr, large_tag(bufctl->addr));
}

/* Returns the whole pages between the block and the page of its tag. */
static char *
large_gap(const struct bufctl *bufctl, size_t *bytes)
{
	uintptr_t p = (uintptr_t)bufctl->addr;
	uintptr_t from = align_up(p + bufctl->size, os_page_size());
	uintptr_t to =
	    align_down((uintptr_t)large_tag((void *)p), os_page_size());

	*bytes = from < to ? to - from : 0;
	return (char *)from;
}

/* Makes the pages behind the block inaccessible, unless the kernel refuses. */
static void
large_guard_pages(const struct bufctl *bufctl)
{
	char *p = bufctl->addr, *gap;
	size_t bytes = page_map_large_bytes(page_map_owner(p)), n;

	if (large_count() > GUARDED_MAX)
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
	return size_classes.bytes[class] > DECOMMIT_MIN &&
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
	bufctl->cache = &debug_large_cache;
	bufctl->size = size;
	bufctl->api = (uint16_t)api;
	if (debug_has_quarantine(&debug_large_cache)) {
		large_fill(bufctl, zeroed);
		large_guard_pages(bufctl);
	}
	large_write_redzone(bufctl);
	store_release(&bufctl->state, BUFCTL_ALLOCATED);
	debug_stamp(&debug_large_cache, bufctl);
	return p;
}

struct bufctl *
debug_large_peek(const void *p)
{
	const struct buftag *tag = large_tag(p);

	return tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_ALLOCATED)
		   ? tag->bufctl
		   : NULL;
}

/* Returns the bufctl of a large block, or NULL after a report. */
struct bufctl *
debug_large_bufctl(const void *p)
{
	const struct buftag *tag = large_tag(p);
	struct error_info info = {0};

	if (debug_large_peek(p) != NULL)
		return tag->bufctl;
	info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
	info.expected = BUFTAG_ALLOCATED;
	info.cache = &debug_large_cache;
	debug_report(UMERR_BADBUFTAG, &debug_large_cache, NULL, p, info);
	return NULL;
}

/*
 * Checks a block that the program frees, and moves it to another state.
 * Returns NULL after a report of misuse.
 */
static struct bufctl *
large_check_free(void *p, size_t size, unsigned api, enum bufctl_state to)
{
	struct umem_cache *cache = &debug_large_cache;
	struct umem_cache view = large_view(p);
	struct bufctl *bufctl = debug_large_bufctl(p);

	if (bufctl == NULL || !debug_change_state(cache, bufctl, p, to) ||
	    !debug_free_matches(cache, bufctl, p, size, api) ||
	    !debug_redzone_is_intact(&view, bufctl, p, large_tag(p)))
		return NULL;
	return bufctl;
}

/*
 * Releases the block and keeps its bufctl, which has the thread and the stack
 * of the free.
 */
static void
large_release(struct bufctl *bufctl)
{
	void *p = bufctl->addr;

	umem_assert(bufctl->state == BUFCTL_FREE);
	if (debug_has_quarantine(&debug_large_cache))
		large_quarantine(p);
	else
		large_free(p, page_map_large_bytes(page_map_owner(p)));
	large_remember_freed(bufctl);
}

void
debug_large_free(void *p, size_t size, unsigned api)
{
	struct bufctl *bufctl = large_check_free(p, size, api, BUFCTL_FREE);

	if (bufctl == NULL)
		return;
	debug_log_contents(&debug_large_cache, bufctl, p, bufctl->size);
	debug_stamp(&debug_large_cache, bufctl);
	large_release(bufctl);
}

bool
debug_large_defer(void *p, size_t size, unsigned api)
{
	struct bufctl *bufctl = large_check_free(p, size, api, BUFCTL_WAITING);

	if (bufctl == NULL)
		return false;
	debug_wait_begin(&debug_large_cache, bufctl);
	debug_stamp(&debug_large_cache, bufctl);
	return true;
}

void
debug_large_defer_undo(void *p)
{
	/* Release: the caller may pass the block to another thread. */
	store_release(&debug_large_bufctl(p)->state, BUFCTL_ALLOCATED);
}

void
debug_large_free_deferred(void *p)
{
	struct umem_cache view = large_view(p);
	struct bufctl *bufctl = debug_large_bufctl(p);

	if (bufctl == NULL ||
	    !debug_wait_is_intact(&view, bufctl, large_tag(p)))
		return;
	debug_log_contents(&debug_large_cache, bufctl, p, bufctl->size);
	store_release(&bufctl->state, BUFCTL_FREE);
	large_release(bufctl);
}

bool
debug_large_resize(void *p, size_t size)
{
	struct umem_cache view = large_view(p);
	struct bufctl *bufctl = debug_large_bufctl(p);
	size_t gap_bytes, old;
	char *gap;

	if (bufctl == NULL || align_up(large_total_bytes(size), HEAP_UNIT) !=
				  page_map_large_bytes(page_map_owner(p)))
		return false;
	if (!debug_redzone_is_intact(&view, bufctl, p, large_tag(p)))
		return false;
	old = bufctl->size;
	gap = large_gap(bufctl, &gap_bytes);
	if (gap_bytes != 0 && !os_commit(gap, gap_bytes))
		return false;
	/*
	 * The pages are accessible again and zero, except for the last page of
	 * the block.
	 */
	if (size > old)
		memset((char *)p + old, 0, size - old);
	umem_assert(bufctl->state == BUFCTL_ALLOCATED);
	bufctl->size = size;
	if (debug_has_quarantine(&debug_large_cache))
		large_guard_pages(bufctl);
	large_write_redzone(bufctl);
	debug_stamp(&debug_large_cache, bufctl);
	return true;
}

DESCRIBE(DESCRIBED_DEBUG_LARGE);
