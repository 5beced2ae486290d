/*
 * firewall.c - spans that end at a guard page
 *
 * Each object has a slab of its own and ends where the slab's last accessible
 * page ends.  The next page is a guard page.  When the object is freed, its own
 * pages are decommitted, too.  A thread that reads or writes past the end, or
 * after the free, faults at that instruction.
 *
 * Addresses come from a separate arena, by next fit, and stay in it, so that a
 * freed address is reused as late as possible.  The arena takes them from the
 * heap, so that the page map covers them.
 *
 * A live object takes at least one unit of the heap (64 KiB of addresses) and
 * up to two mappings of the kernel's limit (vm.max_map_count).
 */
#include "umem/slab/firewall.h"
#include "umem/base/page_map.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

/* Bytes of addresses taken from the heap at once; fewer if that fails. */
#define GROW_BYTES (256 * MIB)

static vmem_t *arena; /* [a] */

bool
firewall_layout(struct slab_layout *layout, size_t size)
{
	size_t page = os_page_size();
	size_t bytes = align_up(size, page) + page;

	if (size == 0 || size > PTRDIFF_MAX / 2)
		return false;
	bytes = align_up(bytes, HEAP_UNIT);
	*layout = (struct slab_layout){.chunk = bytes,
	    .slab_bytes = bytes,
	    .nchunks = 1,
	    .colour_max = bytes - page - size};
	return true;
}

static vmem_t *
firewall_arena(void)
{
	vmem_t *published = load_acquire(&arena), *created;

	if (published != NULL)
		return published;
	created = vmem_create("umem_firewall", NULL, 0, HEAP_UNIT, NULL, NULL,
	    NULL, 0, VM_NOSLEEP);
	if (created == NULL)
		return NULL;
	published = publish_once(&arena, created);
	if (published != created)
		vmem_destroy(created);
	return published;
}

/* Adds at least bytes bytes of addresses to the arena. */
static bool
firewall_arena_grow(vmem_t *to, size_t bytes)
{
	size_t piece = bytes > GROW_BYTES ? bytes : GROW_BYTES;
	bool zeroed;
	void *at;

	umem_assert(bytes % HEAP_UNIT == 0);
	while ((at = heap_alloc(piece, HEAP_UNIT, &zeroed)) == NULL) {
		piece = align_down(piece / 2, HEAP_UNIT);
		if (piece < bytes)
			return false;
	}
	if (os_decommit(at, piece) && page_map_commit(at, piece) &&
	    vmem_add(to, at, piece, VM_NOSLEEP) != NULL) {
		account_add(&account.firewall, piece);
		return true;
	}
	if (os_commit(at, piece))
		heap_free(at, piece);
	return false;
}

/* Returns the accessible pages of a span. */
static char *
accessible_pages(void *span, const struct slab_layout *layout, size_t *bytes)
{
	size_t page = os_page_size();
	size_t first = align_down(layout->colour_max, page);

	umem_assert((uintptr_t)span % HEAP_UNIT == 0);
	umem_assert(layout->nchunks == 1 && layout->slab_bytes > page + first);
	*bytes = layout->slab_bytes - page - first;
	return (char *)span + first;
}

size_t
firewall_page_bytes(const struct slab_layout *layout)
{
	size_t bytes;

	accessible_pages(NULL, layout, &bytes);
	return bytes;
}

void *
firewall_alloc(const struct slab_layout *layout)
{
	vmem_t *from = firewall_arena();
	size_t bytes;
	void *span;

	if (from == NULL)
		return NULL;
	span = vmem_alloc(from, layout->slab_bytes, VM_NOSLEEP | VM_NEXTFIT);
	if (span == NULL && firewall_arena_grow(from, layout->slab_bytes))
		span = vmem_alloc(
		    from, layout->slab_bytes, VM_NOSLEEP | VM_NEXTFIT);
	if (span == NULL)
		return NULL;
	char *at = accessible_pages(span, layout, &bytes);
	if (os_commit(at, bytes))
		return span;
	vmem_free(from, span, layout->slab_bytes);
	return NULL;
}

void
firewall_free(void *span, const struct slab_layout *layout)
{
	size_t bytes;
	char *at = accessible_pages(span, layout, &bytes);

	/*
	 * If the kernel refuses, release the memory; the pages read as zeros.
	 */
	if (!os_decommit(at, bytes))
		os_purge(at, bytes);
	vmem_free(arena, span, layout->slab_bytes);
}
