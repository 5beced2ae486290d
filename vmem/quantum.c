/*
 * quantum.c - caches for small multiples of the quantum
 *
 * Most requests to an arena are for a few sizes.  An arena that is created with
 * a qcache_max has one object cache for each multiple of the quantum up to
 * qcache_max.  Per-CPU magazines serve requests of these sizes, and the arena's
 * lock is taken only once for each slab of pieces.  The set of sizes with a
 * cache is fixed when the arena is created, so a free uses the same cache as
 * the allocation.
 *
 * Object caches belong to a layer above this one.  umem/ registers a table of
 * functions once.  An arena that was created before the registration never has
 * quantum caches, and a size for which the cache could not be created never has
 * one.  A cache allocates its slabs by vmem_slab_alloc(), which uses segments,
 * so there is no recursion.
 *
 * If a cache has no piece and no slab can be created, the piece is a single
 * allocated segment.  Magazines do not distinguish the two kinds of pieces.  A
 * piece that leaves a magazine, and that no slab of its cache contains, becomes
 * a free segment.
 *
 * Shortage
 *	A request fails only if, at one moment during the call, no free segment
 *	fitted and no piece was idle in a quantum cache of the arena.  Idle
 *	pieces are in the loaded and previous magazines of the CPUs, in the
 *	depots and in slabs.  They can also be in a batch that a thread is
 *	moving between magazines, slabs and segments.
 *
 *	The gate is a lock of the arena.  A thread closes it before it takes a
 *	batch from magazines, slabs or segments, and opens it after it has
 *	stored the batch (refill, flush, reap, update, creation and destruction
 *	of slabs).  A shortage closes the gate too.  It therefore waits for
 *	threads that refill, reap or handle a shortage, and then no thread holds
 *	a batch.
 *
 *	A trade of magazines with the depot does not close the gate, but its
 *	thread owns its CPU's header meanwhile.  The drain waits until it owns
 *	the headers of all CPUs, and stops the restartable sections by
 *	membarrier.  It takes the magazines of all headers and of the depot
 *	before it releases any header.
 *
 *	Let T be the moment when the last cache of the arena has been drained.
 *	A piece that was idle before T is now in a slab or a segment.  It stays
 *	there, because a refill would have to close the gate.  A piece that the
 *	program frees after the drain of its cache was not idle before.  Empty
 *	slabs become free segments, and partly used slabs are cut up.  At T the
 *	free segments are therefore all units that the program has not
 *	allocated.  The shortage searches them without an import while the gate
 *	is still closed.
 *
 *	The functions of the source run with the gate open, because they may
 *	wait for locks of the program.  A span may therefore be in transit:
 *	another thread is importing it from the source or releasing it to the
 *	source.  If a span was in transit at T, or was imported or released
 *	since the gate was closed, the shortage waits for the end of a call and
 *	starts again.  It gives up if no call ends within TRANSIT_WAIT_NS,
 *	because the source may wait for a lock that this thread holds.
 *
 *	If the request still fails, the object caches with slabs from the arena
 *	are flushed, and those with slabs from arenas that import from it by
 *	vmem_alloc().  Then the request is tried once more.  These flushes do
 *	not wait for batches that other threads are moving.
 *
 *	Exceptions: the kernel may refuse memory for tags, or membarrier.
 *
 * Locking: arena->gate is above the locks of CPUs, depots, slabs and arenas.
 * No function of the program is called while a gate is held, and no thread
 * holds two gates.  A release store publishes the table of functions.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4.3.
 */
#include "vmem/arena.h"
#include "vmem/hooks.h"
#include "vmem/os.h"
#include "vmem/panic.h"

static const struct quantum_hooks *registered;

void
quantum_register(const struct quantum_hooks *hooks)
{
	/* Release; pairs with quantum_hooks_now(). */
	store_release(&registered, hooks);
}

static const struct quantum_hooks *
quantum_hooks_now(void)
{
	return load_acquire(&registered);
}

/* Creates the cache for one size, named "<arena>_<size>". */
static void *
qcache_create(const struct quantum_hooks *hooks, vmem_t *arena, size_t size)
{
	struct message name = {.n = 0};

	message_text(&name, arena->name);
	message_text(&name, "_");
	message_dec(&name, size);
	name.text[name.n] = '\0';
	return hooks->create(name.text, size, arena->quantum, arena);
}

void
quantum_create(vmem_t *arena, size_t qcache_max)
{
	const struct quantum_hooks *hooks = quantum_hooks_now();
	size_t n = qcache_max >> arena->quantum_shift;

	if ((qcache_max & (arena->quantum - 1)) != 0)
		n++;
	if (hooks == NULL || (arena->cflags & VMC_NO_QCACHE) != 0)
		return;
	if (n > ARENA_QCACHES)
		n = ARENA_QCACHES;
	for (size_t i = 0; i < n; i++)
		arena->qcache[i] = qcache_create(
		    hooks, arena, (i + 1) << arena->quantum_shift);
	arena->nqcaches = (unsigned)n;
}

void
quantum_destroy(vmem_t *arena)
{
	for (unsigned i = 0; i < arena->nqcaches; i++) {
		if (arena->qcache[i] != NULL)
			quantum_hooks_now()->destroy(arena->qcache[i]);
	}
	arena->nqcaches = 0;
}

void *
quantum_alloc(void *cache, int vmflag)
{
	return quantum_hooks_now()->alloc(cache, vmflag);
}

void
quantum_free(void *cache, void *addr)
{
	quantum_hooks_now()->free(cache, addr);
}

void
vmem_gate_close(vmem_t *arena)
{
	lock_take(&arena->gate);
}

void
vmem_gate_open(vmem_t *arena)
{
	lock_release(&arena->gate);
	arena_release_due(arena);
}

void *
vmem_slab_alloc(vmem_t *arena, size_t size)
{
	lock_assert_held(&arena->gate);

	struct request req = request_plain(size, arena->quantum);

	return arena_alloc_local(arena, &req, VM_NOSLEEP, /* slab */ true);
}

void
vmem_slab_free(vmem_t *arena, void *slab, size_t size)
{
	lock_assert_held(&arena->gate);
	arena_free_local(arena, slab, size, /* slab */ true);
}

void *
vmem_slab_import(vmem_t *arena, size_t size)
{
	struct request req = request_plain(size, arena->quantum);

	return arena_import(arena, &req, VM_NOSLEEP);
}

void
vmem_slab_import_end(vmem_t *arena, void *span)
{
	arena_import_end(arena, span);
}

bool
vmem_slab_split(vmem_t *arena, void *slab, size_t chunk, const uint64_t *free)
{
	lock_assert_held(&arena->gate);
	return arena_split(arena, slab, chunk, free);
}

bool
vmem_piece_free(vmem_t *arena, void *piece, size_t size)
{
	lock_assert_held(&arena->gate);
	return arena_free_local(arena, piece, size, /* slab */ false);
}

size_t
vmem_free_estimate(const vmem_t *arena)
{
	/* Relaxed: the result is only an estimate. */
	size_t total = load_relaxed(&arena->stats.total);
	size_t inuse = load_relaxed(&arena->stats.inuse);

	if (arena->import != NULL && !load_relaxed(&arena->import_failed))
		return SIZE_MAX;
	return total > inuse ? total - inuse : 0;
}

static void
quantum_foreach(vmem_t *arena, void (*f)(void *cache))
{
	for (unsigned i = 0; i < arena->nqcaches; i++)
		if (arena->qcache[i] != NULL)
			f(arena->qcache[i]);
}

/*
 * Serve a request from idle pieces, by the cheapest attempt first.  The gate is
 * closed.
 */
static void *
quantum_take_idle(
    vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	lock_assert_held(&arena->gate);

	const struct quantum_hooks *hooks = quantum_hooks_now();
	void *at = NULL;

	if (cache != NULL) {
		hooks->drain(cache);
		at = hooks->take(cache);
	}
	if (at != NULL)
		return at;
	quantum_foreach(arena, hooks->drain);
	at = arena_alloc_local(arena, req, vmflag, /* slab */ false);
	if (at != NULL)
		return at;
	quantum_foreach(arena, hooks->dissolve);
	return arena_alloc_local(arena, req, vmflag, /* slab */ false);
}

/* State of the calls of the source's functions at one moment. */
struct transit {
	uint32_t n;       /* arena->ntransit */
	uint32_t nmoved;  /* arena->nmoved */
	uint32_t ncalled; /* arena->ncalled */
};

static struct transit
transit_now(vmem_t *arena)
{
	struct transit now;

	lock_take(&arena->lock);
	now.n = arena->ntransit;
	now.nmoved = arena->nmoved;
	now.ncalled = load_relaxed(&arena->ncalled);
	lock_release(&arena->lock);
	return now;
}

/*
 * Wait until a call of the source has ended since arena->ncalled was ncalled.
 * Returns false if none ends within TRANSIT_WAIT_NS.
 */
static bool
transit_await(vmem_t *arena, uint32_t ncalled)
{
	/* Sequentially consistent, as in transit_end_locked(). */
	__atomic_add_fetch(&arena->nwaiting, 1, __ATOMIC_SEQ_CST);
	os_futex_wait(&arena->ncalled, ncalled, TRANSIT_WAIT_NS);
	__atomic_sub_fetch(&arena->nwaiting, 1, __ATOMIC_SEQ_CST);
	return load_relaxed(&arena->ncalled) != ncalled;
}

/* Handle a shortage, see the top of this file; NULL: nothing idle fits. */
static void *
quantum_reclaim_idle(
    vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	for (;;) {
		struct transit before = transit_now(arena), after;
		void *at;

		vmem_gate_close(arena);
		at = quantum_take_idle(arena, cache, req, vmflag);
		vmem_gate_open(arena);
		/* Import again: the source may have the spans just released. */
		if (at == NULL)
			at = arena_alloc_or_import(arena, req, vmflag);
		if (at != NULL)
			return at;
		after = transit_now(arena);
		if (after.n == 0 && after.nmoved == before.nmoved)
			return NULL;
		if (after.n != 0 && !transit_await(arena, after.ncalled))
			return NULL;
	}
}

void *
quantum_handle_shortage(
    vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	void *at;

	if (arena->nqcaches == 0)
		return NULL;
	at = quantum_reclaim_idle(arena, cache, req, vmflag);
	if (at == NULL && quantum_hooks_now()->reclaim(arena))
		at = quantum_reclaim_idle(arena, cache, req, vmflag);
	return at;
}
