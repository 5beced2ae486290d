/*
 * stats.c - figures of the memory that the library holds
 *
 * The figures are read while other threads allocate and free.  So the figures
 * of different caches are of different moments, and a per-CPU header that is
 * being changed counts as empty.
 */
#include "umem/cache/cache_hooks.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/malloc/sample.h"
#include "umem/malloc/stats.h"
#include "vmem/heap.h"
#include "vmem/meta.h"

static void
stats_read_cache(struct umem_cache *cache, struct stats_cache *out)
{
	size_t used = slab_used(&cache->slabs);

	lock_assert_held(&cache_list_lock);
	out->name = cache->name;
	out->address = cache->class == 0 ? (uintptr_t)cache : 0;
	out->chunk = cache->slabs.layout.chunk;
	out->nslabs = __atomic_load_n(&cache->slabs.nslabs, __ATOMIC_RELAXED);
	out->nchunks = slab_total(&cache->slabs);
	/* Slabs may have been released since used was read. */
	if (used > out->nchunks)
		used = out->nchunks;
	out->ncached = cache->has_magazines
			   ? magazine_rounds(&cache->mag)
			   : quarantine_count(&cache->quarantine);
	out->ncached +=
	    __atomic_load_n(&cache->reserve.nready, __ATOMIC_RELAXED);
	if (out->ncached > used)
		out->ncached = used;
	out->nwaiting = cache_deferral.waiting(cache);
	if (out->nwaiting > used - out->ncached)
		out->nwaiting = used - out->ncached;
	out->nlive = used - out->ncached - out->nwaiting;
	out->nfailed = __atomic_load_n(&cache->nfailed, __ATOMIC_RELAXED);
	out->nmoved = magazine_moved(&cache->mag);
	out->rounds = cache->has_magazines ? __atomic_load_n(&cache->mag.rounds,
						 __ATOMIC_RELAXED)
					   : 0;
}

void
stats_each_cache(void (*f)(const struct stats_cache *, void *), void *arg)
{
	lock_take(&cache_list_lock);
	list_foreach (item, &cache_list) {
		struct stats_cache out;

		stats_read_cache(
		    container_of(item, struct umem_cache, link), &out);
		f(&out, arg);
	}
	lock_release(&cache_list_lock);
}

static void
stats_add_cache(const struct stats_cache *cache, void *arg)
{
	struct stats *stats = arg;

	umem_assert(cache->nlive <= cache->nchunks);
	stats->slabs += cache->nchunks * cache->chunk;
	stats->chunks_live += cache->nlive * cache->chunk;
	stats->nchunks_free += cache->nchunks - cache->nlive;
	stats->chunks_cached += (cache->nchunks - cache->nlive) * cache->chunk;
}

/*
 * Returns the bytes that the heap has from the kernel: all allocated bytes,
 * except the pages that page_purge_sparse() has purged and those that samples
 * do not use, and all dirty bytes.
 * Pages that are allocated and were never written to count, too.
 */
static size_t
stats_held_bytes(size_t dirty)
{
	size_t assigned = heap_used() + dirty;
	size_t absent =
	    heap_foreign() + page_purge_bytes() + sample_absent_bytes();

	return assigned > absent ? assigned - absent : 0;
}

void
stats_read(struct stats *stats)
{
	*stats = (struct stats){0};
	if (!umem_ready())
		return;
	stats->nlarge = large_count() + sample_guarded(&stats->large);
	stats->large += large_used() - sample_overhead_bytes();
	stats->nlarge_most = large_count_most();
	stats->large_most = large_used_most();
	stats_each_cache(stats_add_cache, stats);
	stats->dirty = heap_dirty();
	stats->held = stats_held_bytes(stats->dirty);
	stats->committed = heap_committed();
	stats->meta = meta_mapped();
}
