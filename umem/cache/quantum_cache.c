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

/* A quantum cache never writes to the pieces of its arena. */
static void *
quantum_cache_create(
    const char *name, size_t bytes, size_t quantum, vmem_t *arena)
{
	struct umem_cache template = {.backend = &quantum_backend,
	    .bufsize = bytes,
	    .align = quantum,
	    .flags = UMC_QCACHE | UMC_NOTOUCH | UMC_INTERNAL};
	struct slab_layout layout;

	template.slabs.is_quantum = true;

	/* Slabs have at least four pieces, as in the article. */
	if (!slab_layout(&layout, bytes, quantum, align_up(4 * bytes, quantum)))
		return NULL;
	layout.colour_step = layout.colour_max = 0;
	return cache_create(name, &layout, arena, &template);
}

static void
quantum_cache_destroy(void *cache)
{
	cache_destroy(cache);
}

static void *
quantum_cache_alloc(void *cache, int vmflag)
{
	struct umem_cache *self = cache;
	struct slab_store *slabs = &self->slabs;
	unsigned work = 0;
	void *piece = cache_alloc_by_section(self, &work);
	void *span;

	(void)vmflag;
	if (unlikely(piece == NULL)) {
		span =
		    vmem_slab_import(slabs->source, slabs->layout.slab_bytes);
		if (span == NULL)
			return NULL;
		piece = cache_alloc_slow(self, &work);
		vmem_slab_import_end(slabs->source, span);
	}
	if (work != 0)
		cache_upkeep.run(work);
	return piece;
}

static void
quantum_cache_free(void *cache, void *piece)
{
	unsigned work = 0;

	cache_free_by_section(cache, piece, "vmem_free", &work);
	if (work != 0)
		cache_upkeep.run(work);
}

static void
quantum_cache_drain(void *cache)
{
	struct umem_cache *self = cache;

	cache_drain_idle(self);
	slab_reap(&self->slabs, 0);
}

static void *
quantum_cache_take(void *cache)
{
	struct umem_cache *self = cache;

	return self->backend->take_one(self, 1);
}

static void
quantum_cache_dissolve(void *cache)
{
	struct umem_cache *self = cache;

	slab_dissolve(&self->slabs);
}

static bool
quantum_cache_reclaim(vmem_t *arena)
{
	return cache_upkeep.reclaim_source(arena);
}

void
quantum_cache_start(void)
{
	static const struct quantum_hooks hooks = {
	    .create = quantum_cache_create,
	    .destroy = quantum_cache_destroy,
	    .alloc = quantum_cache_alloc,
	    .free = quantum_cache_free,
	    .drain = quantum_cache_drain,
	    .take = quantum_cache_take,
	    .dissolve = quantum_cache_dissolve,
	    .reclaim = quantum_cache_reclaim};

	quantum_register(&hooks);
}
