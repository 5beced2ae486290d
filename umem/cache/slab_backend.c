/*
 * slab_backend.c - caches whose objects lie in slabs
 *
 * A raw chunk is constructed when it is taken for a request (cache.c).
 */
#include "umem/base/checker.h"
#include "umem/cache/cache.h"
#include "umem/cache/misuse.h"
#include "vmem/heap.h"
#include "magazine/sizes.h"
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

static bool
is_large_class(const struct umem_cache *cache)
{
	return cache->class != 0 && cache->bufsize >= LARGE_CLASS_MIN;
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

/*
 * The large classes on a CPU may cache the idle target of this part of the
 * heap.  A few blocks are enough, because one of several classes serves a
 * request (slow_pop() in alloc.c).
 */
#define CACHED_LARGE_PART 8
/*
 * Evictions since the last update show that the program circulates large
 * blocks: each CPU may cache 1 MiB more for every so many, at most four times
 * the budget of its magazines.  An update releases blocks that were idle since
 * the last one.
 */
#define CIRCULATES        32
/* Evictions for one request, while other threads may free such objects. */
#define EVICTED_MAX       128

static uint32_t nevicted; /* [a] from large classes since the last update */

/*
 * Returns the large class of which this CPU and the depot cache the most bytes,
 * or NULL if the large classes together cache at most this many.
 */
static struct umem_cache *
largest_cached(size_t most)
{
	unsigned lowest = size_class_of(LARGE_CLASS_MIN), cpu = cpu_now();
	unsigned first = class_number(lowest);
	unsigned last = first + size_classes.n - lowest;
	struct umem_cache *largest = NULL;
	size_t sum = 0, largest_bytes = 0;

	for (unsigned c = first; c <= last; c++) {
		struct umem_cache *cache = class_cache_if_made(c);

		if (cache == NULL || !cache->has_magazines)
			continue;
		size_t bytes =
		    magazine_rounds_estimate(&cache->mag, cpu) * cache->bufsize;
		sum += bytes;
		if (bytes > largest_bytes) {
			largest = cache;
			largest_bytes = bytes;
		}
	}
	return sum > most ? largest : NULL;
}

/*
 * Frees objects while the large classes cache more than their target and one of
 * them is empty, so that their slabs can be split and merged for the request.
 * This avoids new memory, which costs a page fault for each page.  Objects are
 * freed one at a time, so that blocks of many sizes stay for the next requests.
 * Objects that were idle while the heap grew have been freed before
 * (cache_reclaim_idle()): lists and tables that grow leave one object of each
 * size behind.
 */
static void
evict_large(void)
{
	size_t most = idle_target(heap_committed() / CACHED_LARGE_PART) +
		      size_min(load_relaxed(&nevicted) / CIRCULATES * MIB,
			  4 * sizes_cpu_budget());

	for (unsigned i = 0; i < EVICTED_MAX; i++) {
		struct umem_cache *cache = largest_cached(most);
		void *object;

		if (cache == NULL ||
		    magazine_get_bulk(&cache->mag, &object, 1) == 0)
			return;
		add_relaxed(&nevicted, 1);
		slabs_give(cache, &object, 1, cache_freed_by(cache));
		slab_reap(&cache->slabs, 0);
	}
}

/*
 * A large class takes one object at a time: a second one would be memory that
 * the program has not asked for.  A cache that constructs objects cannot fill a
 * magazine before the slabs have constructed objects.
 */
static unsigned
slabs_nready(struct umem_cache *cache, unsigned want)
{
	if (is_large_class(cache))
		return 1;
	return !cache->slabs.constructs || slab_nready(&cache->slabs) != 0
		   ? want
		   : 0;
}

static unsigned
slabs_take(struct umem_cache *cache, void **objects, unsigned n)
{
	if (is_large_class(cache))
		evict_large();
	return slab_take(&cache->slabs, objects, n);
}

static unsigned
slabs_take_bulk(struct umem_cache *cache, void **objects, unsigned n)
{
	n = slabs_nready(cache, n);
	return n == 0 ? 0 : slabs_take(cache, objects, n);
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
	if (is_large_class(cache))
		store_relaxed(&nevicted, 0);
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
