/*
 * slab_backend.c - caches whose objects lie in slabs
 *
 * A raw chunk is constructed when it is taken for a request (cache.c).
 */
#include "umem/base/checker.h"
#include "umem/cache/cache.h"
#include "umem/cache/misuse.h"
#include "vmem/heap.h"
#include "magazine/target.h"

static cold_path void
refuse_chunk(struct umem_cache *cache, void *chunk)
{
	slab_give_raw(&cache->slabs, chunk);
	add_relaxed(&cache->nrefused, 1);
}

static bool
construct_chunk(struct umem_cache *cache, void *chunk)
{
	bool is_constructed;

	if (cache->construct == NULL)
		return true;
	if (unlikely(cache->slabs.is_annotated))
		checker_unpoison(chunk, cache->bufsize, /* defined */ false);
	is_constructed =
	    cache->construct(chunk, cache->priv, UMEM_DEFAULT) == 0;
	if (unlikely(cache->slabs.is_annotated))
		checker_poison(chunk, cache->bufsize);
	return is_constructed;
}

/* Takes one object from the slabs, and constructs it if it is raw. */
static void *
slabs_take_one(struct umem_cache *cache, unsigned want)
{
	bool raw;
	void *chunk = slab_take_one(&cache->slabs, &raw);

	(void)want;
	if (chunk == NULL || !raw)
		return chunk;
	if (!construct_chunk(cache, chunk)) {
		refuse_chunk(cache, chunk);
		return NULL;
	}
	slab_constructed(&cache->slabs, chunk);
	return chunk;
}

/* Does this CPU cache more of all large classes than the target? */
static bool
large_classes_exceed_target(unsigned first)
{
	size_t bytes = 0;

	for (unsigned c = first; c <= size_classes.n; c++) {
		struct umem_cache *cache = class_cache_if_made(c);

		if (cache != NULL && cache->has_magazines)
			bytes += magazine_rounds_estimate(&cache->mag) *
				 size_classes.bytes[c];
	}
	return bytes > idle_target(heap_committed());
}

/*
 * Flushes the large classes when one of them is empty and together they cache
 * too much, so that their slabs can be merged for the request.  This avoids new
 * memory, which costs a page fault for each page.  Objects that were idle while
 * the heap grew have been flushed before (cache_reclaim_idle()): lists and
 * tables that grow leave one object of each size behind.
 */
static void
flush_large_classes(void)
{
	unsigned first = size_class_of(LARGE_CLASS_MIN);

	if (!large_classes_exceed_target(first))
		return;
	for (unsigned c = first; c <= size_classes.n; c++) {
		struct umem_cache *cache = class_cache_if_made(c);
		struct magazine *chain;

		if (cache == NULL || !cache->has_magazines ||
		    magazine_rounds_estimate(&cache->mag) == 0)
			continue;
		magazine_take_own(&cache->mag, &chain);
		cache_flush(cache, chain);
		slab_reap(&cache->slabs, 0);
	}
}

/*
 * A cache that constructs objects cannot fill a magazine before the slabs have
 * constructed objects.
 */
static unsigned
slabs_nready(struct umem_cache *cache, unsigned want)
{
	return !cache->slabs.constructs || slab_nready(&cache->slabs) != 0
		   ? want
		   : 0;
}

static unsigned
slabs_take(struct umem_cache *cache, void **objects, unsigned n)
{
	if (cache->class != 0 && cache->bufsize >= LARGE_CLASS_MIN)
		flush_large_classes();
	return slab_take(&cache->slabs, objects, n);
}

static unsigned
slabs_take_bulk(struct umem_cache *cache, void **objects, unsigned n)
{
	n = slabs_nready(cache, n);
	return n == 0 ? 0 : slabs_take(cache, objects, n);
}

static void
slabs_give(
    struct umem_cache *cache, void **objects, unsigned n, const char *function)
{
	void *bad = NULL;
	enum slab_fault fault = slab_give(&cache->slabs, objects, n, &bad);

	if (unlikely(fault != SLAB_FINE))
		misuse_slab(function, cache, bad, fault);
}

static void
slabs_reap(struct umem_cache *cache)
{
	slab_reap(&cache->slabs, 0);
}

/*
 * Releases empty slabs if the use of the cache has not grown.  Returns true if
 * a later call may find more.
 */
static bool
slabs_update(struct umem_cache *cache)
{
	size_t nused = slab_used(&cache->slabs);
	bool shrinks = nused <= cache->nused_at_update;

	cache->nused_at_update = nused;
	/* Constructing the objects again may cost more than their memory. */
	if (cache->slabs.constructs || cache->slabs.is_type_stable)
		return slab_reap_unused(&cache->slabs);
	if (shrinks)
		slabs_reap(cache);
	return false;
}

static bool
slabs_end(struct umem_cache *cache)
{
	return cache->nsamples == 0 && slab_store_end(&cache->slabs);
}

const struct cache_backend slab_backend = {.nready = slabs_nready,
    .take = slabs_take,
    .take_bulk = slabs_take_bulk,
    .take_one = slabs_take_one,
    .give = slabs_give,
    .reap = slabs_reap,
    .update = slabs_update,
    .end = slabs_end};
