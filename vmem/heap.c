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
 * Nodes
 *	On a machine with several memory nodes (node.h), each node has an arena
 *	for blocks of less than a huge page.  It imports spans of whole huge
 *	pages from the heap arena.  So a huge page has blocks of one node, and
 *	a node allocates again the memory that its own blocks have left.
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
#include "vmem/node.h"
#include "vmem/os.h"

/*
 * Attempts to pass a foreign unit, FOREIGN_WAIT_NS apart, before an allocation
 * fails: 10 ms for a thread that holds the unit.
 */
#define FOREIGN_TRIES   100
#define FOREIGN_WAIT_NS 100000

vmem_t *heap_arena;

/* [I] The arenas of nodes; NULL: one node, or no memory. */
static vmem_t *node_arena[NODES];
/*
 * [a] By unit: 1 + the node that last allocated it, or 0; with NODE_ARENA if a
 * block begins there that is of the node's arena.
 */
uint8_t *heap_node_of;
#define NODE_ARENA 128u

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

/* The byte of heap_node_of for an address. */
static uint8_t *
node_entry(const void *at)
{
	return &heap_node_of[((uintptr_t)at - heap_window.base) >>
			     HEAP_UNIT_SHIFT];
}

/* The arena from which a block was allocated. */
static vmem_t *
arena_of(const void *at)
{
	unsigned entry =
	    heap_node_of == NULL ? 0 : load_relaxed(node_entry(at));

	return likely(entry < NODE_ARENA) ? heap_arena
					  : node_arena[entry - NODE_ARENA - 1];
}

/*
 * Let this node have committed units that the caller has just allocated from
 * the heap arena: purge them if another node has left pages there.  No other
 * thread writes their bytes of heap_node_of, because the lock of the arena
 * orders these stores before the next allocation of the units.
 */
static void
node_take(void *at, size_t bytes)
{
	uint8_t node = (uint8_t)(node_now() + 1), *entry = node_entry(at);
	bool is_foreign = false;

	for (size_t i = 0; i < bytes >> HEAP_UNIT_SHIFT; i++) {
		uint8_t last = load_relaxed(&entry[i]);

		is_foreign |= last != 0 && last != node;
		store_relaxed(&entry[i], node);
	}
	if (is_foreign)
		os_purge(at, bytes);
}

/*
 * The import function of the arenas of nodes.  A span with a foreign mapping is
 * not imported, because the heap arena must have its units.
 */
static void *
node_import(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	void *at;

	*size = align_up(*size, HUGE_PAGE);
	at = vmem_xalloc(source, *size, size_max(align, HUGE_PAGE), 0, 0, NULL,
	    NULL, vmflag);
	if (at == NULL)
		return NULL;
	if (heap_commit((uintptr_t)at + *size) != COMMITTED) {
		vmem_xfree(source, at, *size);
		return NULL;
	}
	node_take(at, *size);
	return at;
}

static void
node_release(vmem_t *source, void *at, size_t size)
{
	uint8_t *entry = node_entry(at);

	for (size_t i = 0; i < size >> HEAP_UNIT_SHIFT; i++)
		store_relaxed(&entry[i], load_relaxed(&entry[i]) % NODE_ARENA);
	vmem_xfree(source, at, size);
}

void
heap_nodes_start(void)
{
	static const char *const name[NODES] = {
	    "umem_node_0", "umem_node_1", "umem_node_2", "umem_node_3"};
	size_t bytes = align_up(heap_window.units, os_page_size());
	size_t now = heap_committed() >> HEAP_UNIT_SHIFT;
	uint8_t *table = os_reserve_zeros(bytes);

	if (table == NULL ||
	    (now != 0 && !os_commit(table, align_up(now, os_page_size()))))
		return;
	for (unsigned i = 0; i <= nodes.mask; i++)
		node_arena[i] = vmem_xcreate(name[i], NULL, 0, HEAP_UNIT,
		    node_import, node_release, heap_arena, 0, VM_NOSLEEP);
	heap_node_of = table;
}

/* Allocate a block of this node; NULL: the heap arena must allocate it. */
static void *
node_alloc(size_t bytes, int flags)
{
	unsigned node = node_now();
	void *at = node_arena[node] == NULL
		       ? NULL
		       : vmem_alloc(node_arena[node], bytes, flags);

	if (at != NULL)
		store_relaxed(node_entry(at), (uint8_t)(NODE_ARENA + node + 1));
	return at;
}

static void *
units_alloc(size_t bytes, struct placement placement)
{
	int flags = VM_NOSLEEP | policy;

	if (unlikely(heap_node_of != NULL) && bytes < HUGE_PAGE &&
	    placement.align <= HEAP_UNIT && placement.from == 0) {
		void *at = node_alloc(bytes, flags);

		if (at != NULL)
			return at;
	}
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
				vmem_xfree(arena_of(at), at, bytes);
				placement.from = heap_states_end();
				nfailed++;
				continue;
			}
			if (unlikely(heap_node_of != NULL) &&
			    arena_of(at) == heap_arena)
				node_take(at, bytes);
			if (likely(heap_limit_keep()))
				return at;
			/* Clean units were not written to: they stay clean. */
			if (!*zeroed)
				heap_states_mark(at, bytes);
			vmem_xfree(arena_of(at), at, bytes);
			return NULL;
		}
		vmem_xfree(arena_of(at), at, bytes);
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
	vmem_xfree(arena_of(at), at, bytes);
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
		vmem_grow(arena_of(at), at, oldbytes, newbytes);
	__atomic_sub_fetch(&heap_ngrowing, 1, __ATOMIC_SEQ_CST);
	if (!grown)
		return false;
	while (!heap_states_clear(end, newbytes - oldbytes, zeroed))
		if (vmem_shrink(arena_of(at), at, newbytes, oldbytes))
			return false;
	if (unlikely(heap_node_of != NULL) && arena_of(at) == heap_arena)
		node_take(end, newbytes - oldbytes);
	/* If there is no memory to undo it, the block keeps its new size. */
	return heap_limit_keep() || !heap_shrink(at, newbytes, oldbytes);
}

bool
heap_shrink(void *at, size_t oldbytes, size_t newbytes)
{
	char *end = (char *)at + newbytes;
	bool zeroed;

	heap_states_mark(end, oldbytes - newbytes);
	if (vmem_shrink(arena_of(at), at, oldbytes, newbytes))
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
	size_t nfree = 0, used = vmem_size(heap_arena, VMEM_ALLOC);

	for (unsigned i = 0; i < NODES; i++)
		if (unlikely(node_arena[i] != NULL))
			nfree += vmem_size(node_arena[i], VMEM_FREE);
	return used - size_min(used, nfree);
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
	    program_import, heap_arena_release, heap_arena, 0,
	    VM_NOSLEEP | VMC_XALIGN);
	if (created == NULL)
		return NULL;
	published = publish_once(&arena, created);
	if (published != created)
		vmem_destroy(created);
	return published;
}

DESCRIBE(DESCRIBED_HEAP);
