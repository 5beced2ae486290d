/*
 * quantum_cache.c - quantum caches of arenas
 *
 * This file registers the functions of struct quantum_hooks.  See
 * vmem/quantum.c for the gate and for a shortage of pieces.
 */
#include "umem/cache/cache.h"
#include "umem/cache/cache_hooks.h"
#include "umem/cache/quantum_cache.h"
#include "vmem/hooks.h"

static void *
create(const char *name, size_t bytes, size_t quantum, vmem_t *arena)
{
	return cache_create_quantum(name, bytes, quantum, arena);
}

static void
destroy(void *cache)
{
	umem_cache_destroy(cache);
}

static void *
alloc(void *cache, int vmflag)
{
	struct umem_cache *of = cache;
	struct slab_store *slabs = &of->slabs;
	void *piece = cache_alloc_slow(of);
	void *span;

	(void)vmflag;
	if (likely(piece != NULL))
		return piece;
	span = vmem_slab_import(slabs->source, slabs->layout.slab_bytes);
	if (span == NULL)
		return NULL;
	piece = cache_alloc_slow(of);
	vmem_slab_import_end(slabs->source, span);
	return piece;
}

static void
give(void *cache, void *piece)
{
	umem_cache_free(cache, piece);
}

static void
drain(void *cache)
{
	cache_drain_idle(cache);
}

static void *
take(void *cache)
{
	return cache_take_idle(cache);
}

static void
dissolve(void *cache)
{
	struct umem_cache *of = cache;

	slab_dissolve(&of->slabs);
}

static bool
reclaim(vmem_t *arena)
{
	return cache_upkeep.reclaim_source(arena);
}

void
quantum_cache_start(void)
{
	static const struct quantum_hooks hooks = {.create = create,
	    .destroy = destroy,
	    .alloc = alloc,
	    .free = give,
	    .drain = drain,
	    .take = take,
	    .dissolve = dissolve,
	    .reclaim = reclaim};

	quantum_register(&hooks);
}
