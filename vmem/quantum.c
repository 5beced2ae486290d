/*
 * quantum.c - caches for small multiples of the quantum
 *
 * Most requests to an arena are for a few sizes.  An arena created with a
 * qcache_max has one object cache for each multiple of the quantum up to it;
 * such requests are served from per-CPU magazines, and the arena's lock is
 * taken once for a slab of pieces.  Whether a size belongs to a cache is
 * fixed when the arena is made, so a free finds the same way back.
 *
 * Object caches live above this layer.  umem/ registers a table of functions
 * once; until then arenas go without, for good, as do sizes whose cache could
 * not be made.  A cache fetches its slabs by vmem_slab_alloc(), which is served
 * by segments: nothing recurses.
 *
 * When the cache of a size has nothing and no slab can be made, the piece is an
 * allocated segment of its own.  A magazine does not tell the two apart: the
 * piece becomes a free segment when it leaves the magazine and no slab of its
 * cache contains it.
 *
 * Shortage
 *	A request fails only if, at one moment of the call, it did not fit the
 *	free segments although no piece was idle in a quantum cache.  Idle
 *	pieces are in the loaded and previous magazines of the CPUs, in the
 *	depots, in slabs, and in the hands of threads that move a batch of
 *	them from one of these places to another.
 *
 *	The gate is a lock of the arena that is closed by every such batch
 *	between taking it from the magazines, the slabs or the segments and
 *	putting it there (refill, flush, reap, update, the making and ending
 *	of slabs).  The shortage closes it too, so it waits for other threads
 *	that refill, reap or have a shortage, and none has a batch in hand.
 *	A trade of magazines with the depot does not close the gate, but its
 *	thread owns its CPU's header meanwhile: the drain waits until it owns
 *	the headers of all CPUs, stops the restartable sections by membarrier,
 *	and takes the magazines of the headers and of the depot before it
 *	gives any header up.  Let T be the moment when the last cache of the
 *	arena is drained so.  A piece that was idle before T is now in a slab
 *	or a segment, and stays there, because a refill would close the gate.
 *	A piece in the hands of the program that is freed after the drain of
 *	its cache was not idle before.  Empty slabs become free segments and
 *	the slabs that are partly used are cut up, so that at T the free
 *	segments are all that is not allocated by the program.  They are
 *	searched without an import while the gate is still closed.
 *
 *	The functions of the source run with the gate open, because they may
 *	wait for locks of the program.  So a span may be in transit: on its
 *	way from the source in an import of another thread, or back to it in a
 *	release.  If one was in transit at T, or came or went since the gate
 *	was closed, the shortage waits for the end of a call and begins anew.
 *	It gives up when no call ends for TRANSIT_WAIT_NS, since the source
 *	may be waiting for a lock that this very thread holds.
 *
 *	A request that fails even so has the object caches flushed whose slabs
 *	come from the arena, and those of arenas that import from it by
 *	vmem_alloc(), and is tried once more.  These flushes pass over what
 *	other threads have in hand.
 *
 *	Exceptions: the kernel may refuse memory for tags, or membarrier.
 *
 * Locking: arena->gate is above the locks of CPUs, depots, slabs and arenas.
 * No function of the program is called while it is held, and no thread holds
 * two gates.  The table of functions is published by a release store.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4.3.
 */
#include "vmem/arena.h"
#include "vmem/hooks.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* How long a shortage waits for a function of the source that does not end. */
#define TRANSIT_WAIT_NS 100000000

static const struct quantum_hooks *registered;

void
quantum_register(const struct quantum_hooks *hooks)
{
	/* Release; pairs with hooks_now(). */
	__atomic_store_n(&registered, hooks, __ATOMIC_RELEASE);
}

static const struct quantum_hooks *
hooks_now(void)
{
	return __atomic_load_n(&registered, __ATOMIC_ACQUIRE);
}

static void *
cache_create(const struct quantum_hooks *hooks, vmem_t *arena, size_t size)
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
	const struct quantum_hooks *hooks = hooks_now();
	size_t n = qcache_max >> arena->quantum_shift;

	if ((qcache_max & (arena->quantum - 1)) != 0)
		n++;
	if (hooks == NULL || (arena->cflags & VMC_NO_QCACHE) != 0)
		return;
	if (n > ARENA_QCACHES)
		n = ARENA_QCACHES;
	for (size_t i = 0; i < n; i++)
		arena->qcache[i] =
		    cache_create(hooks, arena, (i + 1) << arena->quantum_shift);
	arena->nqcaches = (unsigned)n;
}

void
quantum_destroy(vmem_t *arena)
{
	for (unsigned i = 0; i < arena->nqcaches; i++) {
		if (arena->qcache[i] != NULL)
			hooks_now()->destroy(arena->qcache[i]);
	}
	arena->nqcaches = 0;
}

void *
quantum_alloc(void *cache, int vmflag)
{
	return hooks_now()->alloc(cache, vmflag);
}

void
quantum_free(void *cache, void *addr)
{
	hooks_now()->free(cache, addr);
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
	arena_settle(arena);
}

void *
vmem_slab_alloc(vmem_t *arena, size_t size)
{
	struct request req = request_plain(size, arena->quantum);

	return arena_take(arena, &req, VM_NOSLEEP, /* slab */ true);
}

void
vmem_slab_free(vmem_t *arena, void *slab, size_t size)
{
	arena_give(arena, slab, size, /* slab */ true);
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
	return arena_split(arena, slab, chunk, free);
}

bool
vmem_piece_free(vmem_t *arena, void *piece, size_t size)
{
	return arena_give(arena, piece, size, /* slab */ false);
}

size_t
vmem_free_about(const vmem_t *arena)
{
	/* Relaxed: a hint. */
	size_t total = __atomic_load_n(&arena->stats.total, __ATOMIC_RELAXED);
	size_t inuse = __atomic_load_n(&arena->stats.inuse, __ATOMIC_RELAXED);

	if (arena->import != NULL &&
	    !__atomic_load_n(&arena->import_failed, __ATOMIC_RELAXED))
		return SIZE_MAX;
	return total > inuse ? total - inuse : 0;
}

static void
each_cache(vmem_t *arena, void (*f)(void *cache))
{
	for (unsigned i = 0; i < arena->nqcaches; i++)
		if (arena->qcache[i] != NULL)
			f(arena->qcache[i]);
}

/* Take an idle piece, by the cheapest attempt first.  The gate is closed. */
static void *
take_idle(vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	const struct quantum_hooks *hooks = hooks_now();
	void *at = NULL;

	if (cache != NULL) {
		hooks->drain(cache);
		at = hooks->take(cache);
	}
	if (at != NULL)
		return at;
	each_cache(arena, hooks->drain);
	at = arena_take(arena, req, vmflag, /* slab */ false);
	if (at != NULL)
		return at;
	each_cache(arena, hooks->dissolve);
	return arena_take(arena, req, vmflag, /* slab */ false);
}

struct transit {
	uint32_t n;       /* calls of the source's functions */
	uint32_t nmoved;  /* as in the arena */
	uint32_t ncalled; /* as in the arena */
};

static struct transit
transit_now(vmem_t *arena)
{
	struct transit now;

	lock_take(&arena->lock);
	now.n = arena->ntransit;
	now.nmoved = arena->nmoved;
	now.ncalled = __atomic_load_n(&arena->ncalled, __ATOMIC_RELAXED);
	lock_release(&arena->lock);
	return now;
}

/* Wait for the end of a call.  False: none ends. */
static bool
transit_await(vmem_t *arena, uint32_t ncalled)
{
	/* Sequentially consistent, as in transit_end_locked(). */
	__atomic_add_fetch(&arena->nwaiting, 1, __ATOMIC_SEQ_CST);
	os_futex_wait(&arena->ncalled, ncalled, TRANSIT_WAIT_NS);
	__atomic_sub_fetch(&arena->nwaiting, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&arena->ncalled, __ATOMIC_RELAXED) != ncalled;
}

static void *
shortage(vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	for (;;) {
		struct transit before = transit_now(arena), after;
		void *at;

		vmem_gate_close(arena);
		at = take_idle(arena, cache, req, vmflag);
		vmem_gate_open(arena);
		/* The source may have more since the drain released spans. */
		if (at == NULL)
			at = arena_try(arena, req, vmflag);
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
quantum_shortage(
    vmem_t *arena, void *cache, const struct request *req, int vmflag)
{
	void *at;

	if (arena->nqcaches == 0)
		return NULL;
	at = shortage(arena, cache, req, vmflag);
	if (at == NULL && hooks_now()->reclaim(arena))
		at = shortage(arena, cache, req, vmflag);
	return at;
}
