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
 *	1 The arena searches for a free segment according to the policy
 *	  (arena_fit.c).  Instant fit, the default, examines a bounded number
 *	  of segments.
 *	2 If none fits, it imports a span from the source, if there is one
 *	  (arena_span.c).
 *	3 It cuts the request from the low end of the segment found, or at the
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
 *	Neither is held during a call of a source, so a source may be an arena
 *	or any other allocator.  While an import has
 *	dropped the lock, other threads may allocate and free.  Therefore the
 *	import sets its tags aside, and a search follows a failed import.
 *
 * Always true (arena_check.c tests all but the last)
 *	stats.total is the sum of all spans;  stats.inuse is the sum of all
 *	allocated segments;  the hash table contains exactly the allocated
 *	segments;  the free lists contain exactly the free segments;  if the
 *	arena has a release function, no imported span is entirely free
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4;
 * illumos vmem(9).
 */
#include <errno.h>

#include "vmem/arena_inner.h"
#include "vmem/arenas.h"
#include "vmem/panic.h"

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
	struct segment *into = prev->type == VMEM_FREE ? prev : next;
	size_t oldsize = into->size;

	if (into->type != VMEM_FREE) {
		seg->type = VMEM_FREE;
		freelist_insert(&arena->free, seg);
		return seg;
	}
	into->size += seg->size;
	if (into == next) {
		next->start = seg->start;
	} else if (next->type == VMEM_FREE) {
		prev->size += next->size;
		freelist_remove(&arena->free, next);
		segment_unlink(next);
		segment_delete(&arena->reserve, next);
	}
	freelist_grown(&arena->free, into, oldsize);
	segment_unlink(seg);
	segment_delete(&arena->reserve, seg);
	return into;
}

void *
arena_error(vmem_t *arena, size_t size, int error, int vmflag)
{
	if ((vmflag & VM_PANIC) != 0)
		panic("vmem_xalloc(%p, %zu): cannot satisfy mandatory "
		      "allocation",
		    (void *)arena, size);
	return fail_null(error);
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
		seg = arena_span_import_locked(arena, req, vmflag, addr);
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
		return freelist_search(&arena->free, CHOOSE_ANY, req, addr);
	return may_import ? arena_search_locked(arena, req, policy, addr)
			  : NULL;
}

void *
arena_try(vmem_t *arena, const struct request *req, int vmflag)
{
	int policy = vmflag & ARENA_POLICIES;
	struct segment *seg;
	uintptr_t addr;

	lock_take(&arena->lock);
	if (policy == 0)
		policy = arena->policy;
	seg = arena_find_locked(arena, req, policy, vmflag, &addr);
	if (likely(seg != NULL)) {
		umem_assert(((addr | req->size) & (arena->quantum - 1)) == 0);
		seg = segment_take_locked(arena, seg, addr, req->size);
		if (policy == VM_NEXTFIT)
			arena_rotor_set_locked(arena, seg);
		umem_assert(arena_check_sampled_locked(arena));
	}
	lock_release(&arena->lock);
	return likely(seg != NULL) ? (void *)addr : NULL;
}

/* The result of a request for which there is no segment. */
static noinline void *
arena_fail(vmem_t *arena, size_t size, int vmflag)
{
	lock_take(&arena->lock);
	arena->stats.nfails++;
	lock_release(&arena->lock);
	return arena_error(arena, size, ENOMEM, vmflag);
}

void *
arena_alloc(vmem_t *arena, const struct request *req, int vmflag)
{
	void *at;

	if (!arena_one_policy(vmflag))
		return arena_error(arena, req->size, EINVAL, vmflag);
	at = arena_try(arena, req, vmflag);
	if (unlikely(at == NULL) && quantum_reap(arena))
		at = arena_try(arena, req, vmflag);
	return likely(at != NULL) ? at : arena_fail(arena, req->size, vmflag);
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

/* The allocated segment at addr; a bad address or size aborts. */
static struct segment *
segment_find_locked(vmem_t *arena, void *addr, size_t oldsize)
{
	lock_assert_held(&arena->lock);

	struct segment *seg = seghash_find(&arena->hash, (uintptr_t)addr);

	if (unlikely(
		seg == NULL || seg->size != align_up(oldsize, arena->quantum)))
		arena_bad_free_locked(arena, addr, oldsize, seg);
	return seg;
}

public void
vmem_xfree(vmem_t *arena, void *addr, size_t size)
{
	struct segment *seg;

	lock_take(&arena->lock);
	seg = segment_find_locked(arena, addr, size);
	seghash_remove(&arena->hash, (uintptr_t)addr);
	arena->stats.inuse -= seg->size;
	seg = segment_merge_locked(arena, seg);
	if (arena_span_is_free(arena, seg))
		arena_span_release_locked(arena, seg);
	else
		umem_assert(arena_check_sampled_locked(arena));
	lock_release(&arena->lock);
}

/* Do quantum caches serve the size?  0 becomes SIZE_MAX. */
static inline bool
arena_caches(const vmem_t *arena, size_t size)
{
	return size - 1 < arena->qcache_max;
}

public void
vmem_free(vmem_t *arena, void *addr, size_t size)
{
	if (arena_caches(arena, size) && addr != NULL)
		quantum_hooks.cache_free(
		    arena_qcache(arena, size)->cache, addr);
	else
		vmem_xfree(arena, addr, size);
}

public void *
vmem_alloc(vmem_t *arena, size_t size, int vmflag)
{
	size_t rounded;

	if (arena_caches(arena, size)) {
		void *at = quantum_alloc(arena, size);

		return likely(at != NULL) ? at
					  : arena_fail(arena, size, vmflag);
	}
	if (unlikely(!arena_round(arena, size, &rounded)))
		return arena_error(
		    arena, size, size == 0 ? EINVAL : ENOMEM, vmflag);

	struct request req = request_plain(rounded, arena->quantum);

	return arena_alloc(arena, &req, vmflag);
}

bool
vmem_grow(vmem_t *arena, void *addr, size_t oldsize, size_t newsize)
{
	size_t rounded;

	if (newsize < oldsize || !arena_round(arena, newsize, &rounded))
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
	umem_assert(arena_check_sampled_locked(arena));
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

	if (newsize > oldsize || !arena_round(arena, newsize, &rounded))
		return false;

	lock_take(&arena->lock);
	struct segment *seg = segment_find_locked(arena, addr, oldsize);
	size_t removed = seg->size - rounded;
	bool done =
	    removed == 0 || segment_tail_free_locked(arena, seg, removed);

	umem_assert(arena_check_sampled_locked(arena));
	lock_release(&arena->lock);
	return done;
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
vmem_release_calls_program(const vmem_t *arena, vmem_free_t *own)
{
	while ((arena->release == vmem_free || arena->release == vmem_xfree) &&
	       arena->source != NULL)
		arena = arena->source;
	return arena->release != NULL && arena->release != own;
}
