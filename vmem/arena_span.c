/*
 * arena_span.c - spans: add, import from the source, release to it
 *
 * A span is a range that the arena received at once.  Its tag precedes the
 * tags of its segments in the ring, and is in a treap by address, which is
 * accessed only when a span is added or removed.
 *
 * Import and release call the source with no lock held, so that a source may be
 * an arena or any other allocator.  Other threads may change the arena
 * meanwhile.
 */
#include <errno.h>

#include "vmem/arena_inner.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

static bool
span_overlaps_locked(const vmem_t *arena, uintptr_t start, size_t size)
{
	lock_assert_held(&arena->lock);

	const struct segment *span =
	    span_near(arena->spans, start + (size - 1), /* above */ false);

	return span != NULL && segment_last(span) >= start;
}

/*
 * Add a span and a free segment that fills it.  The reserve has TAGS_SPAN tags.
 * Returns the free segment.
 */
static struct segment *
span_add_locked(vmem_t *arena, uintptr_t start, size_t size, bool imported)
{
	lock_assert_held(&arena->lock);
	umem_assert(((start | size) & (arena->quantum - 1)) == 0);
	umem_assert(!span_overlaps_locked(arena, start, size));

	struct segment *span =
	    segment_new(&arena->reserve, VMEM_SPAN, start, size);
	struct segment *seg =
	    segment_new(&arena->reserve, VMEM_FREE, start, size);
	struct segment *above =
	    span_near(arena->spans, start, /* above */ true);

	if (above == NULL)
		above = &arena->head;
	span->imported = imported;
	segment_link_after(above->aprev, span);
	segment_link_after(span, seg);
	span_insert(&arena->spans, span);
	freelist_insert(&arena->free, seg);
	arena->nspans++;
	arena->stats.total += size;
	if (imported)
		arena->stats.imported += size;
	return seg;
}

/* Remove the span that the free segment seg fills. */
static void
span_delete_locked(vmem_t *arena, struct segment *seg)
{
	lock_assert_held(&arena->lock);

	struct segment *span = segment_prev(seg);

	umem_assert(seg->type == VMEM_FREE && span->type == VMEM_SPAN);
	umem_assert(span->size == seg->size);
	freelist_remove(&arena->free, seg);
	span_remove(&arena->spans, span);
	segment_unlink(seg);
	segment_unlink(span);
	arena->nspans--;
	arena->stats.total -= span->size;
	if (span->imported)
		arena->stats.imported -= span->size;
	segment_delete(&arena->reserve, seg);
	segment_delete(&arena->reserve, span);
}

/*
 * Call the import function, with no lock held.  *size receives the size of the
 * span.  Returns NULL if the source has none, and leaves errno alone.
 */
static void *
arena_call_import(
    vmem_t *arena, const struct request *req, int vmflag, size_t *size)
{
	bool aligns = (arena->cflags & VMC_XALIGN) != 0 && req->nocross == 0;
	int saved_errno = errno;
	/* A user's vmem_alloc_t need only align to this arena's quantum. */
	size_t aligned_to = arena->import == vmem_alloc ? arena->import_quantum
							: arena->quantum;
	size_t wanted;
	void *span;

	/* The source must not abort: this arena handles the failure. */
	vmflag &= VM_KMFLAGS & ~VM_PANIC;
	if (!request_import_size(req, aligned_to, aligns, &wanted) ||
	    (wanted = align_up(wanted, arena->import_quantum)) == 0)
		return NULL;
	*size = wanted;
	if ((arena->cflags & VMC_XALLOC) == 0)
		span = arena->import(arena->source, wanted, vmflag);
	else
		span = arena->ximport(arena->source, size, req->align, vmflag);
	errno = saved_errno;
	if (span != NULL && *size < wanted)
		panic("vmem_xalloc(%p): import of %zu for %zu", (void *)arena,
		    *size, wanted);
	return span;
}

static void
span_verify_locked(vmem_t *arena, uintptr_t start, size_t size)
{
	lock_assert_held(&arena->lock);
	if (((start | size) & (arena->quantum - 1)) != 0 ||
	    start + (size - 1) < start ||
	    span_overlaps_locked(arena, start, size)) {
		lock_release(&arena->lock);
		panic("vmem_xalloc(%p): import of %zu at %p is misaligned or "
		      "overlaps",
		    (void *)arena, size, (void *)start);
	}
}

/*
 * The tags are set aside during the import, because other threads may use up
 * the reserve while the lock is dropped.
 */
struct segment *
arena_span_import_locked(
    vmem_t *arena, const struct request *req, int vmflag, uintptr_t *addr)
{
	struct reserve tags = {.spare = NULL};
	size_t size;

	segment_reserve_move(&arena->reserve, &tags, TAGS_SPAN + TAGS_TAKE);
	lock_release(&arena->lock);
	void *start = arena_call_import(arena, req, vmflag, &size);
	lock_take(&arena->lock);
	segment_reserve_move(&tags, &arena->reserve, TAGS_SPAN + TAGS_TAKE);
	if (start == NULL)
		return NULL;

	span_verify_locked(arena, (uintptr_t)start, size);
	struct segment *seg = span_add_locked(arena, (uintptr_t)start, size,
	    /* imported */ true);

	probe_fire(umem, arena_import, arena->name, start, size);
	if (likely(request_fits(req, seg, addr)))
		return seg;

	/* Only if the source did not align the span as it had promised. */
	if (arena->release != NULL) {
		span_delete_locked(arena, seg);
		lock_release(&arena->lock);
		arena->release(arena->source, start, size);
		lock_take(&arena->lock);
	}
	return NULL;
}

bool
arena_span_is_free(const vmem_t *arena, const struct segment *seg)
{
	const struct segment *span = segment_prev(seg);

	return unlikely(span->type == VMEM_SPAN && span->imported &&
			span->size == seg->size && arena->release != NULL);
}

void
arena_span_release_locked(vmem_t *arena, struct segment *seg)
{
	lock_assert_held(&arena->lock);

	void *start = (void *)seg->start;
	size_t size = seg->size;

	span_delete_locked(arena, seg);
	umem_assert(arena_check_sampled_locked(arena));
	lock_release(&arena->lock);
	arena->release(arena->source, start, size);
	lock_take(&arena->lock);
}

int
arena_add_span(vmem_t *arena, uintptr_t start, size_t size)
{
	int error = 0;

	if (start == 0 || size == 0 || start + (size - 1) < start ||
	    ((start | size) & (arena->quantum - 1)) != 0)
		return EINVAL;

	lock_take(&arena->lock);
	if (span_overlaps_locked(arena, start, size))
		error = EINVAL;
	else if (!segment_reserve(&arena->reserve, TAGS_SPAN))
		error = ENOMEM;
	else
		span_add_locked(arena, start, size, /* imported */ false);
	umem_assert(arena_check_sampled_locked(arena));
	lock_release(&arena->lock);
	return error;
}
