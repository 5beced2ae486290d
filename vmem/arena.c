/*
 * arena.c - arenas: allocators for ranges of integers
 *
 * The theory of this layer.  An arena owns spans of integers.  It divides each
 * span into segments, which are allocated or free.  A boundary tag outside the
 * segment describes it (segment.c).  All tags of the arena form a ring by
 * address.  The tag of a free segment is also in a free list by size
 * (freelist.c), and the tag of an allocated segment is also in a hash table by
 * address (seghash.c).
 *
 * Allocate
 *	1 If the size has a quantum cache, vmem_alloc() calls the cache
 *	  (quantum.c) and this file does nothing else.
 *	2 Otherwise it searches for a free segment according to the policy.
 *	  Instant fit, the default, examines a bounded number of segments.
 *	3 If none fits, it imports a span from the source, if there is one.
 *	4 It cuts the request from the low end of the segment found, or at the
 *	  address that a constraint requires.  The rest stays free.
 *
 * Free
 *	1 The hash table yields the segment, or detects a bad address.
 *	2 The segment is merged with its free neighbours.  The result becomes
 *	  the newest segment of its free list.
 *	3 If the merge leaves an imported span entirely free, the span is
 *	  released to the source.
 *
 * Every step except a best, first or next fit search takes bounded time,
 * independent of the number of segments: lists and ring are doubly linked, the
 * hash table grows by one bucket at a time, and tags come from a reserve.  The
 * treap of spans is accessed only when a span is added or removed.
 *
 * When instant fit finds nothing, the request's own free list may still contain
 * a segment that fits, behind the segments that instant fit examined.  If the
 * arena has a source, it imports first, because an import is faster than a
 * search of the list.  If there is no source, or the import fails, the arena
 * searches the whole list.  A request therefore fails only if no free segment
 * fits.
 *
 * Failure
 *	An operation changes nothing before it has all tags that it may need.
 *	An allocation first fills the reserve.  A free needs no tag.  The tags
 *	for a span are set aside before the import.
 *
 * Locking
 *	arena->lock guards an arena.  arena_list_lock (create.c) is above it.
 *	Neither is held during a call of a source or a quantum cache, so a
 *	source may be an arena or any other allocator.  While an import has
 *	dropped the lock, other threads may allocate and free.  Therefore the
 *	import sets its tags aside, and a search follows a failed import.
 *
 * Always true (arena_check() tests all but the last)
 *	stats.total is the sum of all spans;  stats.inuse is the sum of all
 *	allocated segments;  the hash table contains exactly the allocated
 *	segments;  the free lists contain exactly the free segments;  if the
 *	arena has a release function, an imported span that is entirely free is
 *	in the list arena->due or belongs to an arena_import() in progress
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4;
 * illumos vmem(9).
 */
#include <errno.h>

#include "vmem/arena.h"
#include "vmem/hooks.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Tags for an allocation from the middle of a free segment, the worst case. */
#define TAGS_TAKE 2
/* Tags for a span and for the free segment that fills it. */
#define TAGS_SPAN 2

/*
 * With at most this number of free segments, first fit searches the free lists
 * for the lowest address.  With more free segments, a search of the ring from
 * its start is likely to be faster.
 */
#define FIRSTFIT_LISTS 64

/* Most segments of an arena that a debug build checks after every change. */
#define CHECK_ALWAYS 64

/*
 * Checks.  arena_check_locked() examines every segment.  The debug build calls
 * it after every change of a small arena, but only once for every n changes of
 * an arena with n segments if n is larger than CHECK_ALWAYS.
 */
struct census {
	size_t inuse;
	size_t total;
	size_t imported;
	size_t nspans;
	size_t nallocated;
	size_t nfree;
};

static struct census
arena_census(const vmem_t *arena)
{
	struct census c = {.inuse = 0};
	const struct segment *seg = segment_next(&arena->head);

	for (; seg != &arena->head; seg = segment_next(seg)) {
		if (seg->type == VMEM_SPAN) {
			c.nspans++;
			c.total += seg->size;
			c.imported += seg->imported ? seg->size : 0;
		} else if (seg->type == VMEM_ALLOC) {
			c.nallocated++;
			c.inuse += seg->size;
		} else {
			c.nfree++;
		}
	}
	return c;
}

static bool
arena_check_locked(const vmem_t *arena)
{
	lock_assert_held(&arena->lock);
	if (!segment_check(&arena->head, arena->spans) ||
	    !freelist_check(&arena->free) || !seghash_check(&arena->hash))
		return false;

	struct census c = arena_census(arena);

	return segment_reserve_check(&arena->reserve) &&
	       c.inuse == arena->stats.inuse && c.total == arena->stats.total &&
	       c.imported == arena->stats.imported &&
	       c.nspans == arena->nspans && c.nallocated == arena->hash.nsegs &&
	       c.nfree == arena->free.nsegs;
}

bool
arena_check(vmem_t *arena)
{
	lock_take(&arena->lock);
	bool sound = arena_check_locked(arena);
	lock_release(&arena->lock);
	return sound;
}

#ifdef UMEM_DEBUG
static void
arena_check_sampled_locked(vmem_t *arena)
{
	size_t n = arena->hash.nsegs + arena->free.nsegs;

	if (n > CHECK_ALWAYS && ++arena->nchecks < n)
		return;
	arena->nchecks = 0;
	umem_assert(arena_check_locked(arena));
}
#else
static inline void
arena_check_sampled_locked(vmem_t *arena)
{
	(void)arena;
}
#endif

static bool
span_overlaps_locked(const vmem_t *arena, uintptr_t start, size_t size)
{
	lock_assert_held(&arena->lock);

	const struct segment *span =
	    span_at_or_below(arena->spans, start + (size - 1));

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
	struct segment *above = span_above(arena->spans, start);

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
	umem_assert(span->size == seg->size && !span->due);
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
 * Allocate [addr, addr + size), a part of the free segment seg.  The reserve
 * has TAGS_TAKE tags.  Returns the tag of the allocated segment.
 */
static struct segment *
segment_take_locked(
    vmem_t *arena, struct segment *seg, uintptr_t addr, size_t size)
{
	lock_assert_held(&arena->lock);

	size_t oldsize = seg->size;
	size_t below = addr - seg->start;
	size_t above = oldsize - below - size;
	struct segment *taken = seg;

	umem_assert(seg->type == VMEM_FREE && addr >= seg->start);
	umem_assert(size <= oldsize && below <= oldsize - size);
	umem_assert(
	    arena->reserve.nspare >= (unsigned)(below != 0) + (above != 0));

	if (below == 0 && above == 0) {
		freelist_remove(&arena->free, seg);
		seg->type = VMEM_ALLOC;
		/* The tag may have described a slab before it became free. */
		seg->slab = false;
	} else {
		taken = segment_new(&arena->reserve, VMEM_ALLOC, addr, size);
		segment_link_after(below == 0 ? seg->aprev : seg, taken);
		seg->size = below == 0 ? above : below;
		if (below == 0)
			seg->start += size;
		freelist_shrunk(&arena->free, seg, oldsize);
	}
	if (below != 0 && above != 0) {
		struct segment *rest =
		    segment_new(&arena->reserve, VMEM_FREE, addr + size, above);

		segment_link_after(taken, rest);
		freelist_insert(&arena->free, rest);
	}
	seghash_insert(&arena->hash, taken);
	arena->stats.inuse += size;
	arena->stats.nallocs++;
	return taken;
}

/*
 * Merge seg, which is in no list, with its free neighbours.  Returns the
 * resulting free segment, which is in a free list.
 */
static struct segment *
segment_merge_locked(vmem_t *arena, struct segment *seg)
{
	lock_assert_held(&arena->lock);

	struct segment *prev = segment_prev(seg);
	struct segment *next = segment_next(seg);

	if (next->type == VMEM_FREE && prev->type != VMEM_FREE) {
		size_t oldsize = next->size;

		next->start = seg->start;
		next->size += seg->size;
		freelist_grown(&arena->free, next, oldsize);
		segment_unlink(seg);
		segment_delete(&arena->reserve, seg);
		return next;
	}
	if (prev->type != VMEM_FREE) {
		seg->type = VMEM_FREE;
		freelist_insert(&arena->free, seg);
		return seg;
	}

	size_t oldsize = prev->size;

	prev->size += seg->size;
	if (next->type == VMEM_FREE) {
		prev->size += next->size;
		freelist_remove(&arena->free, next);
		segment_unlink(next);
		segment_delete(&arena->reserve, next);
	}
	freelist_grown(&arena->free, prev, oldsize);
	segment_unlink(seg);
	segment_delete(&arena->reserve, seg);
	return prev;
}

/* First fit: the lowest address. */
static struct segment *
arena_first_fit_locked(
    vmem_t *arena, const struct request *req, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);
	if (arena->free.nsegs <= FIRSTFIT_LISTS)
		return freelist_lowest(&arena->free, req, addr);

	struct segment *seg = segment_next(&arena->head);

	for (; seg != &arena->head; seg = segment_next(seg)) {
		if (seg->type == VMEM_FREE && request_fits(req, seg, addr))
			return seg;
	}
	return NULL;
}

/* Is the tag before the position of address at in the ring? */
static bool
tag_is_before(const struct segment *seg, uintptr_t at)
{
	return seg->type == VMEM_SPAN ? seg->start < at
				      : segment_last(seg) < at;
}

static void
rotor_move(struct segment *rotor, struct segment *after)
{
	segment_unlink(rotor);
	segment_link_after(after, rotor);
}

/*
 * Move the rotor's tag to its proper position, from which merges and cuts since
 * the last next fit may have separated it by a few tags.  Returns the tag of
 * the segment that contains rotor_at, or else the next tag.
 */
static struct segment *
rotor_update_locked(vmem_t *arena)
{
	lock_assert_held(&arena->lock);

	struct segment *rotor = &arena->rotor, *head = &arena->head;
	struct segment *seg;

	/* No next fit so far, or the last one ended at the largest integer. */
	if (arena->rotor_at == 0)
		return segment_next(head);
	while ((seg = segment_prev(rotor)) != head &&
	       !tag_is_before(seg, arena->rotor_at))
		rotor_move(rotor, seg->aprev);
	while ((seg = segment_next(rotor)) != head &&
	       tag_is_before(seg, arena->rotor_at))
		rotor_move(rotor, seg);
	return seg;
}

/* Next fit: continue where the last one ended, once around the ring. */
static struct segment *
arena_next_fit_locked(vmem_t *arena, const struct request *req, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);

	struct segment *first = rotor_update_locked(arena);
	struct request rest = *req;

	/*
	 * The segment that contains rotor_at comes first with its part above
	 * rotor_at, and comes last as a whole.
	 */
	if (rest.min < arena->rotor_at)
		rest.min = arena->rotor_at;
	rest.plain = false;
	if (first->type == VMEM_FREE && request_fits(&rest, first, addr))
		return first;

	struct segment *seg = first;

	do {
		seg = segment_next(seg);
		if (seg->type == VMEM_FREE && request_fits(req, seg, addr))
			return seg;
	} while (seg != first);
	return NULL;
}

static struct segment *
arena_search_locked(
    vmem_t *arena, const struct request *req, int policy, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);
	switch (policy) {
	case VM_BESTFIT:
		return freelist_best(&arena->free, req, addr);
	case VM_FIRSTFIT:
		return arena_first_fit_locked(arena, req, addr);
	case VM_NEXTFIT:
		return arena_next_fit_locked(arena, req, addr);
	default:
		return freelist_instant(&arena->free, req, addr);
	}
}

/*
 * Count a call of import or release that begins or has ended.  If fork() occurs
 * during a call, the child may find the count 0 at the end of the call, because
 * vmem_unlock_for_fork() clears it.
 */
static void
transit_begin_locked(vmem_t *arena)
{
	lock_assert_held(&arena->lock);
	arena->ntransit++;
}

static void
transit_end_locked(vmem_t *arena, bool moved)
{
	lock_assert_held(&arena->lock);
	if (arena->ntransit != 0)
		arena->ntransit--;
	arena->nmoved += moved;
	if (arena->nqcaches == 0)
		return;
	/* Sequentially consistent, as in transit_await(). */
	__atomic_add_fetch(&arena->ncalled, 1, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&arena->nwaiting, __ATOMIC_SEQ_CST) != 0))
		os_futex_wake(&arena->ncalled, INT32_MAX);
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
	size_t aligned_to = arena->quantum;
	size_t wanted;
	void *span;

	/* The source must not abort: this arena handles the failure. */
	vmflag &= VM_KMFLAGS & ~VM_PANIC;
	/* A user's vmem_alloc_t need only align to this arena's quantum. */
	if (arena->import == vmem_alloc || (arena->cflags & VMC_XALLOC) != 0)
		aligned_to = arena->import_quantum;
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
 * Import a span in which the request fits.  Returns the free segment and stores
 * the address for the request in *addr, or returns NULL.
 *
 * The lock is dropped during the import and held again at the end.  The reserve
 * has TAGS_SPAN + TAGS_TAKE tags at the start, and TAGS_TAKE tags at the end if
 * a segment is returned.  They are set aside during the import, because other
 * threads may use up the reserve while the lock is dropped.
 */
static struct segment *
span_import_locked(
    vmem_t *arena, const struct request *req, int vmflag, uintptr_t *addr)
{
	struct reserve tags = {.spare = NULL};
	size_t size;

	segment_reserve_move(&arena->reserve, &tags, TAGS_SPAN + TAGS_TAKE);
	transit_begin_locked(arena);
	lock_release(&arena->lock);
	void *start = arena_call_import(arena, req, vmflag, &size);
	lock_take(&arena->lock);
	transit_end_locked(arena, /* moved */ start != NULL);
	segment_reserve_move(&tags, &arena->reserve, TAGS_SPAN + TAGS_TAKE);
	__atomic_store_n(
	    &arena->import_failed, start == NULL, __ATOMIC_RELAXED);
	if (start == NULL)
		return NULL;

	span_verify_locked(arena, (uintptr_t)start, size);
	struct segment *seg = span_add_locked(arena, (uintptr_t)start, size,
	    /* imported */ true);

	arena->stats.nimports++;
	if (likely(request_fits(req, seg, addr)))
		return seg;

	/* Only if the source did not align the span as it had promised. */
	if (arena->release != NULL) {
		span_delete_locked(arena, seg);
		transit_begin_locked(arena);
		lock_release(&arena->lock);
		arena->release(arena->source, start, size);
		lock_take(&arena->lock);
		transit_end_locked(arena, /* moved */ true);
	}
	return NULL;
}

void *
arena_error(vmem_t *arena, size_t size, int error, int vmflag)
{
	if ((vmflag & VM_PANIC) != 0)
		panic("vmem_xalloc(%p, %zu): cannot satisfy mandatory "
		      "allocation",
		    (void *)arena, size);
	errno = error;
	return NULL;
}

/*
 * Find or import a free segment in which the request fits.  Returns the segment
 * and stores the address for the request in *addr, or returns NULL.  If a
 * segment is returned, the reserve has TAGS_TAKE tags.
 */
static struct segment *
arena_find_locked(vmem_t *arena, const struct request *req, int policy,
    int vmflag, uintptr_t *addr)
{
	lock_assert_held(&arena->lock);

	bool may_import = arena->import != NULL && !req->bounded;
	struct segment *seg;

	if (!segment_reserve(&arena->reserve, TAGS_TAKE))
		return NULL;
	seg = arena_search_locked(arena, req, policy, addr);
	if (seg != NULL)
		return seg;
	if (may_import) {
		if (!segment_reserve(&arena->reserve, TAGS_SPAN + TAGS_TAKE))
			return NULL;
		seg = span_import_locked(arena, req, vmflag, addr);
		if (seg != NULL)
			return seg;
	}
	/*
	 * Search exhaustively now.  This also finds segments that other threads
	 * have freed during the import.
	 */
	if (!segment_reserve(&arena->reserve, TAGS_TAKE))
		return NULL;
	if (policy == 0)
		return freelist_any(&arena->free, req, addr);
	return may_import ? arena_search_locked(arena, req, policy, addr)
			  : NULL;
}

static int
arena_policy_locked(const vmem_t *arena, int vmflag)
{
	lock_assert_held(&arena->lock);

	int policy = vmflag & ARENA_POLICIES;

	return policy != 0 ? policy : arena->policy;
}

/*
 * Allocate size units at addr from the free segment seg.  Returns the allocated
 * segment, or NULL if seg is NULL.
 */
static struct segment *
arena_place_locked(
    vmem_t *arena, struct segment *seg, uintptr_t addr, size_t size, int policy)
{
	lock_assert_held(&arena->lock);
	if (unlikely(seg == NULL))
		return NULL;
	umem_assert(((addr | size) & (arena->quantum - 1)) == 0);
	seg = segment_take_locked(arena, seg, addr, size);
	if (policy == VM_NEXTFIT) {
		rotor_move(&arena->rotor, seg);
		arena->rotor_at = addr + size;
	}
	arena_check_sampled_locked(arena);
	return seg;
}

void *
arena_alloc_or_import(vmem_t *arena, const struct request *req, int vmflag)
{
	uintptr_t addr;
	int policy;

	lock_take(&arena->lock);
	policy = arena_policy_locked(arena, vmflag);

	struct segment *seg =
	    arena_find_locked(arena, req, policy, vmflag, &addr);

	seg = arena_place_locked(arena, seg, addr, req->size, policy);
	lock_release(&arena->lock);
	return likely(seg != NULL) ? (void *)addr : NULL;
}

void *
arena_alloc_local(
    vmem_t *arena, const struct request *req, int vmflag, bool slab)
{
	struct segment *seg = NULL;
	uintptr_t addr;
	int policy;

	lock_take(&arena->lock);
	policy = arena_policy_locked(arena, vmflag);
	if (segment_reserve(&arena->reserve, TAGS_TAKE))
		seg = arena_search_locked(arena, req, policy, &addr);
	/* Search also behind the segments that instant fit examines. */
	if (seg == NULL && policy == 0 && arena->reserve.nspare >= TAGS_TAKE)
		seg = freelist_any(&arena->free, req, &addr);
	seg = arena_place_locked(arena, seg, addr, req->size, policy);
	if (seg != NULL)
		seg->slab = slab;
	lock_release(&arena->lock);
	return seg != NULL ? (void *)addr : NULL;
}

void *
arena_import(vmem_t *arena, const struct request *req, int vmflag)
{
	struct segment *seg = NULL;
	void *start = NULL;
	uintptr_t addr;

	if (arena->import == NULL)
		return NULL;
	lock_take(&arena->lock);
	if (segment_reserve(&arena->reserve, TAGS_SPAN + TAGS_TAKE))
		seg = span_import_locked(arena, req, vmflag, &addr);
	if (seg != NULL)
		start = (void *)seg->start;
	lock_release(&arena->lock);
	return start;
}

void *
arena_reject(vmem_t *arena, const struct request *req, int vmflag)
{
	lock_take(&arena->lock);
	arena->stats.nfails++;
	lock_release(&arena->lock);
	return arena_error(arena, req->size, ENOMEM, vmflag);
}

void *
arena_alloc(vmem_t *arena, const struct request *req, int vmflag)
{
	void *at;

	if (!arena_one_policy(vmflag))
		return arena_error(arena, req->size, EINVAL, vmflag);
	at = arena_alloc_or_import(arena, req, vmflag);
	if (unlikely(at == NULL))
		at = quantum_handle_shortage(arena, NULL, req, vmflag);
	return likely(at != NULL) ? at : arena_reject(arena, req, vmflag);
}

static _Noreturn cold_path void
arena_bad_free_locked(
    vmem_t *arena, void *addr, size_t size, const struct segment *seg)
{
	lock_assert_held(&arena->lock);

	size_t expect = seg != NULL ? seg->size : 0;

	lock_release(&arena->lock);
	if (seg == NULL)
		panic("vmem_hash_delete(%p, %lx, %lu): bad free", (void *)arena,
		    (uintptr_t)addr, size);
	panic("vmem_hash_delete(%p, %lx, %lu): wrong size (expect %lu)",
	    (void *)arena, (uintptr_t)addr, size, expect);
}

/* The imported span that seg fills, if it is to be released; else NULL. */
static struct segment *
span_to_release(const vmem_t *arena, const struct segment *seg)
{
	struct segment *span = segment_prev(seg);

	if (likely(seg->type != VMEM_FREE || span->type != VMEM_SPAN ||
		   !span->imported || span->size != seg->size ||
		   arena->release == NULL))
		return NULL;
	return span;
}

/* Release the span that seg fills.  The lock is dropped during the call. */
static void
span_release_locked(vmem_t *arena, struct segment *seg)
{
	lock_assert_held(&arena->lock);

	void *start = (void *)seg->start;
	size_t size = seg->size;

	span_delete_locked(arena, seg);
	arena_check_sampled_locked(arena);
	transit_begin_locked(arena);
	lock_release(&arena->lock);
	arena->release(arena->source, start, size);
	lock_take(&arena->lock);
	transit_end_locked(arena, /* moved */ true);
}

/*
 * Free the allocated segment at addr.  Returns the free segment that contains
 * it, or NULL if there is no allocated segment of this size and kind (slab or
 * not) at addr.
 */
static struct segment *
segment_free_locked(vmem_t *arena, void *addr, size_t size, bool slab)
{
	lock_assert_held(&arena->lock);

	struct segment *seg = seghash_find(&arena->hash, (uintptr_t)addr);

	if (unlikely(seg == NULL || seg->slab != slab ||
		     seg->size != align_up(size, arena->quantum)))
		return NULL;
	seghash_remove(&arena->hash, (uintptr_t)addr);
	arena->stats.inuse -= seg->size;
	arena->stats.nfrees++;
	return segment_merge_locked(arena, seg);
}

void
arena_free(vmem_t *arena, void *addr, size_t size)
{
	struct segment *seg, *span;

	lock_take(&arena->lock);
	seg = segment_free_locked(arena, addr, size, /* slab */ false);
	if (unlikely(seg == NULL)) {
		seg = seghash_find(&arena->hash, (uintptr_t)addr);
		arena_bad_free_locked(
		    arena, addr, size, seg != NULL && !seg->slab ? seg : NULL);
	}
	span = span_to_release(arena, seg);
	/* The thread that has marked a span as due releases it. */
	if (span != NULL && !span->due)
		span_release_locked(arena, seg);
	else
		arena_check_sampled_locked(arena);
	lock_release(&arena->lock);
}

bool
arena_free_local(vmem_t *arena, void *addr, size_t size, bool slab)
{
	struct segment *seg, *span;

	lock_take(&arena->lock);
	seg = segment_free_locked(arena, addr, size, slab);
	span = seg == NULL ? NULL : span_to_release(arena, seg);
	if (span != NULL && !span->due) {
		span->due = true;
		span->next_due = arena->due;
		__atomic_store_n(&arena->due, span, __ATOMIC_RELAXED);
	}
	arena_check_sampled_locked(arena);
	lock_release(&arena->lock);
	return seg != NULL;
}

void
arena_release_due(vmem_t *arena)
{
	/* Relaxed is enough: a caller sees the spans that it left itself. */
	if (__atomic_load_n(&arena->due, __ATOMIC_RELAXED) == NULL)
		return;
	lock_take(&arena->lock);
	while (arena->due != NULL) {
		struct segment *span = arena->due;
		struct segment *seg = segment_next(span);

		umem_assert(span->type == VMEM_SPAN && span->due);
		__atomic_store_n(&arena->due, span->next_due, __ATOMIC_RELAXED);
		span->due = false;
		if (span_to_release(arena, seg) == span)
			span_release_locked(arena, seg);
	}
	lock_release(&arena->lock);
}

void
arena_import_end(vmem_t *arena, void *start)
{
	struct segment *span;

	lock_take(&arena->lock);
	span = span_at_or_below(arena->spans, (uintptr_t)start);
	/* Another thread may have used and released the span meanwhile. */
	if (span != NULL && span->start == (uintptr_t)start && !span->due &&
	    span_to_release(arena, segment_next(span)) == span)
		span_release_locked(arena, segment_next(span));
	lock_release(&arena->lock);
}

/*
 * Cut an allocated segment into chunks.  Chunk i becomes free if bit i of free
 * is set, otherwise it becomes an allocated segment.  The reserve has a tag for
 * each chunk.
 */
static void
segment_split_locked(
    vmem_t *arena, struct segment *seg, size_t chunk, const uint64_t *free)
{
	lock_assert_held(&arena->lock);
	umem_assert(arena->reserve.nspare >= seg->size / chunk - 1);

	unsigned n = (unsigned)(seg->size / chunk);

	arena->stats.inuse -= seg->size;
	for (unsigned i = 0; i < n; i++) {
		struct segment *part = seg;

		/* seg is the remainder, and finally the last chunk. */
		if (i != n - 1) {
			part = segment_new(
			    &arena->reserve, VMEM_ALLOC, seg->start, chunk);
			segment_link_after(seg->aprev, part);
			seg->start += chunk;
			seg->size -= chunk;
		}
		if ((free[i / 64] >> (i % 64) & 1) != 0) {
			segment_merge_locked(arena, part);
		} else {
			part->slab = false;
			seghash_insert(&arena->hash, part);
			arena->stats.inuse += chunk;
		}
	}
}

bool
arena_split(vmem_t *arena, void *addr, size_t chunk, const uint64_t *free)
{
	struct segment *seg;
	bool done;

	lock_take(&arena->lock);
	seg = seghash_find(&arena->hash, (uintptr_t)addr);
	umem_assert(seg != NULL && seg->slab && seg->size % chunk == 0);
	done = segment_reserve(&arena->reserve, (unsigned)(seg->size / chunk));
	if (done) {
		seghash_remove(&arena->hash, (uintptr_t)addr);
		segment_split_locked(arena, seg, chunk, free);
		arena_check_sampled_locked(arena);
	}
	lock_release(&arena->lock);
	return done;
}

public void *
vmem_alloc(vmem_t *arena, size_t size, int vmflag)
{
	size_t rounded;

	if (unlikely(!arena_round(arena, size, &rounded)))
		return arena_error(
		    arena, size, size == 0 ? EINVAL : ENOMEM, vmflag);

	struct request req = request_plain(rounded, arena->quantum);
	void *cache = quantum_cache(arena, size);
	void *piece;

	if (cache == NULL)
		return arena_alloc(arena, &req, vmflag);
	piece = quantum_alloc(cache, vmflag);
	if (likely(piece != NULL))
		return piece;
	/* A single segment may fit where a slab of several pieces does not. */
	piece = arena_alloc_or_import(arena, &req, vmflag);
	if (piece == NULL)
		piece = quantum_handle_shortage(arena, cache, &req, vmflag);
	return piece != NULL ? piece : arena_reject(arena, &req, vmflag);
}

public void
vmem_free(vmem_t *arena, void *addr, size_t size)
{
	void *cache = quantum_cache(arena, size);

	if (cache != NULL)
		quantum_free(cache, addr);
	else
		arena_free(arena, addr, size);
}

/* The allocated segment at addr; a bad address or size aborts. */
static struct segment *
segment_find_locked(vmem_t *arena, void *addr, size_t oldsize)
{
	lock_assert_held(&arena->lock);

	struct segment *seg = seghash_find(&arena->hash, (uintptr_t)addr);

	if (seg == NULL || seg->size != align_up(oldsize, arena->quantum))
		arena_bad_free_locked(arena, addr, oldsize, seg);
	return seg;
}

bool
vmem_grow(vmem_t *arena, void *addr, size_t oldsize, size_t newsize)
{
	size_t rounded;

	if (newsize < oldsize || !arena_round(arena, newsize, &rounded) ||
	    quantum_cache(arena, oldsize) != NULL)
		return false;

	lock_take(&arena->lock);
	struct segment *seg = segment_find_locked(arena, addr, oldsize);
	struct segment *next = segment_next(seg);
	size_t added = rounded - seg->size;
	size_t next_size = next->size;
	bool fits =
	    added == 0 || (next->type == VMEM_FREE && next_size >= added);

	if (fits && added != 0) {
		if (next_size == added) {
			freelist_remove(&arena->free, next);
			segment_unlink(next);
			segment_delete(&arena->reserve, next);
		} else {
			next->start += added;
			next->size -= added;
			freelist_shrunk(&arena->free, next, next_size);
		}
		seg->size = rounded;
		arena->stats.inuse += added;
	}
	arena_check_sampled_locked(arena);
	lock_release(&arena->lock);
	return fits;
}

/* Shrink seg by less units and free its tail; false if there is no tag. */
static bool
segment_tail_free_locked(vmem_t *arena, struct segment *seg, size_t removed)
{
	struct segment *next = segment_next(seg);

	lock_assert_held(&arena->lock);
	if (next->type == VMEM_FREE) {
		size_t next_size = next->size;

		next->start -= removed;
		next->size += removed;
		freelist_grown(&arena->free, next, next_size);
	} else {
		if (!segment_reserve(&arena->reserve, 1))
			return false;
		next = segment_new(&arena->reserve, VMEM_FREE,
		    seg->start + (seg->size - removed), removed);
		segment_link_after(seg, next);
		freelist_insert(&arena->free, next);
	}
	seg->size -= removed;
	arena->stats.inuse -= removed;
	return true;
}

bool
vmem_shrink(vmem_t *arena, void *addr, size_t oldsize, size_t newsize)
{
	size_t rounded;

	if (newsize > oldsize || !arena_round(arena, newsize, &rounded) ||
	    quantum_cache(arena, newsize) != NULL ||
	    quantum_cache(arena, oldsize) != NULL)
		return false;

	lock_take(&arena->lock);
	struct segment *seg = segment_find_locked(arena, addr, oldsize);
	size_t removed = seg->size - rounded;
	bool done =
	    removed == 0 || segment_tail_free_locked(arena, seg, removed);

	arena_check_sampled_locked(arena);
	lock_release(&arena->lock);
	return done;
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
	arena_check_sampled_locked(arena);
	lock_release(&arena->lock);
	return error;
}

public void *
vmem_add(vmem_t *arena, void *addr, size_t size, int vmflag)
{
	int error = arena_add_span(arena, (uintptr_t)addr, size);

	return error == 0 ? addr : arena_error(arena, size, error, vmflag);
}

size_t
vmem_quantum(const vmem_t *arena)
{
	return arena->quantum;
}

bool
vmem_has_source(const vmem_t *arena)
{
	return arena->source != NULL;
}

bool
vmem_imports_from(const vmem_t *arena, const vmem_t *source)
{
	while ((arena->release == vmem_free || arena->release == vmem_xfree) &&
	       arena->source != NULL) {
		arena = arena->source;
		if (arena == source)
			return true;
	}
	return false;
}

bool
vmem_release_calls_program(const vmem_t *arena, vmem_free_t *own)
{
	while (arena->release == vmem_free && arena->source != NULL)
		arena = arena->source;
	return arena->release != NULL && arena->release != own;
}

void
arena_stats(vmem_t *arena, struct arena_stats *out)
{
	lock_take(&arena->lock);
	*out = arena->stats;
	out->nspans = arena->nspans;
	out->nsegs = arena->hash.nsegs;
	out->nfree = arena->free.nsegs;
	lock_release(&arena->lock);
}
