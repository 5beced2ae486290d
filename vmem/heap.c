/*
 * heap.c - the root arena of memory: allocate, free, grow, shrink
 *
 * The heap is inside one window of address space (heap_window).  Because the
 * window is fixed at start, tables over it are flat.  For the heap arena the
 * window is a single span.  Its quantum is a unit (HEAP_UNIT, 64 KiB).
 *
 *	heap_window.c	chooses the addresses of the window
 *	heap_commit.c	reserves and commits memory from the low end of the
 *			window; goes around foreign mappings, those of others;
 *			releases the end of the heap under a limit
 *	heap_purge.c	has a byte of state for each unit, and purges the units
 *			that have been free for some time
 *
 * Allocate
 *	1 The arena finds free units.
 *	2 heap_commit() commits memory up to the end of the block.  If a foreign
 *	  mapping is in the way, it is recorded as foreign, and step 1 begins
 *	  again.
 *	3 The states of the units become clean.  If one is being purged, the
 *	  thread waits for the end of the purge.  If that takes too long, step 1
 *	  begins again, above all units that were ever purged.
 *
 * Free
 *	The units become dirty, then the arena receives them.  The pages stay
 *	until heap_purge().
 *
 * Locking: the heap arena has a lock of its own; heap_commit.c and heap_purge.c
 * describe the rest.
 */
#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/heap_inner.h"
#include "vmem/arenas.h"
#include "vmem/huge.h"
#include "vmem/os.h"

/*
 * Attempts to pass a foreign unit, FOREIGN_WAIT_NS apart, before an allocation
 * fails: 10 ms for a thread that holds the unit.
 */
#define FOREIGN_TRIES   100
#define FOREIGN_WAIT_NS 100000

vmem_t *heap_arena;

static int policy; /* see heap_set_policy() */

bool
heap_start(void)
{
	/* Keep the window that an earlier call found before it failed. */
	if (heap_window.units == 0) {
		uintptr_t reserved = heap_window_choose();

		if (reserved == 0)
			return false;
		heap_commit_start(reserved);
	}
	if (!heap_states_start())
		return false;
	heap_arena = vmem_create("umem_heap", (void *)heap_window.base,
	    heap_window.units << HEAP_UNIT_SHIFT, HEAP_UNIT, NULL, NULL, NULL,
	    0, VM_NOSLEEP);
	return heap_arena != NULL;
}

void
heap_set_policy(int policy_flag)
{
	policy = policy_flag;
}

/*
 * Place of a block: it starts phase bytes above a multiple of align, and not
 * below the address from.
 */
struct placement {
	size_t align;
	size_t phase;
	uintptr_t from; /* 0: anywhere */
};

static void *
units_alloc(size_t bytes, struct placement placement)
{
	int flags = VM_NOSLEEP | policy;

	if (placement.align <= HEAP_UNIT && placement.from == 0)
		return vmem_alloc(heap_arena, bytes, flags);
	return vmem_xalloc(heap_arena, bytes, placement.align, placement.phase,
	    0, (void *)placement.from, NULL, flags);
}

static void *
block_alloc(size_t bytes, struct placement placement, bool *zeroed)
{
	uint32_t nfailed = 0;

	if (!heap_limit_has_room(bytes))
		return NULL;
	while (nfailed < FOREIGN_TRIES) {
		void *at = units_alloc(bytes, placement);

		if (at == NULL)
			return NULL;
		enum commit_result got = heap_commit((uintptr_t)at + bytes);
		if (likely(got == COMMITTED)) {
			if (unlikely(!heap_states_clear(at, bytes, zeroed))) {
				vmem_xfree(heap_arena, at, bytes);
				placement.from = heap_states_end();
				nfailed++;
				continue;
			}
			if (likely(heap_limit_keep()))
				return at;
			/* Clean units were not written to: they stay clean. */
			if (!*zeroed)
				heap_states_mark(at, bytes);
			vmem_xfree(heap_arena, at, bytes);
			return NULL;
		}
		vmem_xfree(heap_arena, at, bytes);
		if (got == NO_MEMORY)
			return NULL;
		if (!heap_foreign_take()) {
			/* Wait a moment for the thread that has the unit. */
			nfailed++;
			os_futex_wait(&nfailed, nfailed, FOREIGN_WAIT_NS);
		}
	}
	return NULL;
}

void *
heap_alloc(size_t bytes, size_t align, bool *zeroed)
{
	return block_alloc(bytes, (struct placement){align, 0, 0}, zeroed);
}

void *
heap_alloc_same_offset(size_t bytes, const void *like, bool *zeroed)
{
	struct placement placement = {
	    HUGE_PAGE, (uintptr_t)like & (HUGE_PAGE - 1), 0};
	void *at = block_alloc(bytes, placement, zeroed);

	return at != NULL ? at : heap_alloc(bytes, HEAP_UNIT, zeroed);
}

void
heap_free(void *at, size_t bytes)
{
	heap_states_mark(at, bytes);
	vmem_xfree(heap_arena, at, bytes);
}

bool
heap_grow(void *at, size_t oldbytes, size_t newbytes, bool *zeroed)
{
	size_t start = (uintptr_t)at - heap_window.base;
	char *end = (char *)at + oldbytes;
	bool grown;

	if (!heap_limit_has_room(newbytes - oldbytes))
		return false;
	/*
	 * Commit the memory first.  Otherwise a failed commit would require
	 * shrinking the segment again, which can fail if there is no tag.
	 */
	__atomic_add_fetch(&heap_ngrowing, 1, __ATOMIC_SEQ_CST);
	grown = newbytes <= (heap_window.units << HEAP_UNIT_SHIFT) - start &&
		heap_commit((uintptr_t)at + newbytes) == COMMITTED &&
		vmem_grow(heap_arena, at, oldbytes, newbytes);
	__atomic_sub_fetch(&heap_ngrowing, 1, __ATOMIC_SEQ_CST);
	if (!grown)
		return false;
	while (!heap_states_clear(end, newbytes - oldbytes, zeroed))
		if (vmem_shrink(heap_arena, at, newbytes, oldbytes))
			return false;
	/* If there is no memory to undo it, the block keeps its new size. */
	return heap_limit_keep() || !heap_shrink(at, newbytes, oldbytes);
}

bool
heap_shrink(void *at, size_t oldbytes, size_t newbytes)
{
	char *end = (char *)at + newbytes;
	bool zeroed;

	heap_states_mark(end, oldbytes - newbytes);
	if (vmem_shrink(heap_arena, at, oldbytes, newbytes))
		return true;
	while (!heap_states_clear(end, oldbytes - newbytes, &zeroed))
		continue;
	return false;
}

void
heap_after_fork(void)
{
	heap_ngrowing = 0;
	heap_states_after_fork();
}

size_t
heap_used(void)
{
	return vmem_size(heap_arena, VMEM_ALLOC);
}

/* The import function of heap_public_arena(): whole units of the heap. */
static void *
program_import(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	size_t bytes = align_up(*size, HEAP_UNIT);
	bool zeroed;
	void *at;

	(void)source;
	(void)vmflag;
	if (bytes < *size)
		return NULL;
	*size = bytes;
	at = heap_alloc(bytes, align, &zeroed);
	if (at != NULL)
		account_add(&account.program, bytes);
	return at;
}

void
heap_arena_release(vmem_t *source, void *addr, size_t size)
{
	(void)source;
	heap_free(addr, size);
	account_sub(&account.program, size);
}

vmem_t *
heap_public_arena(void)
{
	static vmem_t *arena; /* [atomic] */
	vmem_t *published = load_acquire(&arena), *created;

	if (published != NULL)
		return published;
	created = vmem_xcreate("umem_program", NULL, 0, os_page_size(),
	    program_import, heap_arena_release, heap_arena, 0, VM_NOSLEEP);
	if (created == NULL)
		return NULL;
	published = publish_once(&arena, created);
	if (published != created)
		vmem_destroy(created);
	return published;
}

DESCRIBE(DESCRIBED_HEAP);
