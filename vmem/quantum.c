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
 * not be made.  A cache fetches its slabs by vmem_alloc() in sizes above
 * qcache_max, which are served by segments: nothing recurses.
 *
 * Locking: none here.  The table is published by a release store.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 4.4.3.
 */
#include "vmem/arena.h"
#include "vmem/hooks.h"
#include "vmem/panic.h"

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
