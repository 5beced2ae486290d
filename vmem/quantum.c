/*
 * quantum.c - caches for small multiples of the quantum
 *
 * Most requests to an arena are for a few sizes.  An arena that is created with
 * a qcache_max has one object cache for each multiple of the quantum up to
 * qcache_max, so that per-CPU magazines serve vmem_alloc() and vmem_free() of
 * these sizes, and the arena's lock is taken once for each segment that a
 * magazine does not have.  The set of sizes is fixed when the arena is created,
 * so a free uses the same cache as the allocation.  vmem_xalloc() and
 * vmem_xfree() use no cache.
 *
 * The caches are import caches (umem/cache/import.c): their resources are
 * allocated segments of the arena.  They belong to a layer above this one, so
 * arenas call them by the table quantum_hooks.  quantum_take() and
 * quantum_give() allocate and free segments without a cache, so there is no
 * recursion.  The other calls of import caches (umem_reap(), upkeep, fork())
 * treat these caches as those of the program.
 *
 * Shortage
 *	A request of a cached size finds every idle segment of this size, by the
 *	protocol of import caches.  A request that fails nevertheless, or that
 *	no cache serves, returns the idle segments of all sizes to the arena,
 *	where they merge, and is tried once more.  quantum_take() does not do
 *	that: it is called during a request, which does it afterwards.
 *
 * Locking: none.  The caches call the two functions with no lock held.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4.3.
 */
#include <errno.h>

#include "vmem/arena.h"
#include "vmem/panic.h"

static size_t
quantum_take(void *arg, void **segments, size_t n, int flags)
{
	struct qcache *qcache = arg;
	vmem_t *arena = qcache->arena;
	struct request req = request_plain(qcache->size, arena->quantum);
	size_t got = 0;

	(void)flags;
	store_relaxed(&qcache->is_used, true);
	while (got < n && (segments[got] = arena_try(arena, &req, 0)) != NULL)
		got++;
	return got;
}

static void
quantum_give(void *arg, void *const *segments, size_t n)
{
	const struct qcache *qcache = arg;

	for (size_t i = 0; i < n; i++)
		vmem_xfree(qcache->arena, segments[i], qcache->size);
}

/* Create the cache for one size, named "<arena>_<size>". */
static struct umem_cache *
qcache_create(struct qcache *qcache)
{
	struct message name = {.n = 0};

	message_text(&name, qcache->arena->name);
	message_text(&name, "_");
	message_dec(&name, qcache->size);
	name.text[name.n] = '\0';
	return quantum_hooks.import_cache_create(name.text, quantum_take,
	    quantum_give, qcache, /* max_idle */ 0, /* cflags */ 0);
}

void
quantum_create(vmem_t *arena, size_t qcache_max)
{
	int saved = errno;

	for (unsigned i = 0;
	     i < ARENA_QCACHES && arena->qcache_max < qcache_max; i++) {
		struct qcache *qcache = &arena->qcache[i];

		qcache->arena = arena;
		qcache->size = arena->qcache_max + arena->quantum;
		qcache->cache =
		    qcache->size == 0 ? NULL : qcache_create(qcache);
		if (qcache->cache == NULL)
			break;
		arena->qcache_max = qcache->size;
	}
	errno = saved;
}

/*
 * A cache with segments in use says so, and stays without being used again;
 * nothing calls its functions any more.
 */
void
quantum_destroy(vmem_t *arena)
{
	for (; arena->qcache_max != 0; arena->qcache_max -= arena->quantum)
		quantum_hooks.cache_destroy(
		    arena_qcache(arena, arena->qcache_max)->cache);
}

void *
quantum_alloc(vmem_t *arena, size_t size)
{
	struct umem_cache *cache = arena_qcache(arena, size)->cache;
	int saved = errno;
	void *at = quantum_hooks.cache_alloc_once(cache);

	if (unlikely(at == NULL)) {
		quantum_reap(arena);
		at = quantum_hooks.cache_alloc_once(cache);
		errno = saved;
	}
	return at;
}

bool
quantum_reap(vmem_t *arena)
{
	for (size_t n = arena->qcache_max; n != 0; n -= arena->quantum) {
		const struct qcache *qcache = arena_qcache(arena, n);

		if (load_relaxed(&qcache->is_used))
			quantum_hooks.cache_reap_now(qcache->cache);
	}
	return arena->qcache_max != 0;
}
