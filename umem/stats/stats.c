/*
 * stats.c - figures of the memory that the library holds
 *
 * struct umem_stats has all figures.  The metrics (stats_text.c) and
 * mallinfo2() are made of it.
 *
 * Each byte has one place
 *	heap = live + cached + waiting + dirty + sampled
 *	cached = cpu + depot + slab
 *	mapped = heap + own
 *	heap is the memory of the heap: its spans in use, by the
 *	count of its arena, and its dirty pages, without the pages that have no
 *	memory.  The parts are sums over the caches, the large blocks, the
 *	samples and the arenas.  Because heap is counted apart from its parts,
 *	the sum shows whether a part is missing (stats_unaccounted()).
 *
 * Places
 *	live	Chunks that the program holds; large blocks; all that arenas of
 *		the program have from the heap.  Objects of a cache with a
 *		source are in an arena, and not counted again.  Objects of a
 *		cache that was destroyed too early stay live.  Chunks and blocks
 *		count whole: the library does not record how much of each the
 *		program asked for.
 *	slab	Free chunks in slabs, the ends of slabs and their colours.
 *		Purged parts of slabs have no memory and count nowhere.
 *	sampled	Pages of sampled blocks, which the program holds, too, and pages
 *		that are kept for the next samples.
 *	own	Mappings of the metadata allocator, heap memory donated to it,
 *		the heap's and the page map's tables, blocks of per-CPU headers,
 *		logs.
 * Freed large blocks in quarantine, addresses of the firewall and units of
 * samples without memory count nowhere, nor do foreign mappings in the heap.
 * Pages that were never written to count like others, so the process can have
 * less resident memory than this.
 *
 * The figures are read while other threads allocate and free.  So the figures
 * of different caches are of different moments, and a per-CPU header that is
 * being changed counts as empty.
 */
#include <sys/types.h>

#include "magazine/shards.h"
#include "umem/cache/cache_hooks.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/profile/sample.h"
#include "umem/stats/stats.h"
#include "umem/umem.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/meta.h"

/* Readings while other threads change much: 0.1 ms each on a small machine. */
#define STATS_TRIES 8

/* Counts the free chunks among the used ones, which are not in slabs. */
static void
stats_read_cached(
    struct umem_cache *cache, size_t used, struct stats_cache *out)
{
	bool has_magazines = cache->has_magazines && !cache->destroyed;

	out->ncpu =
	    has_magazines ? cpu_rounds(cache->mag.hot, cache->mag.cold) : 0;
	out->ndepot = load_relaxed(&cache->reserve.nready);
	if (has_magazines)
		out->ndepot += shards_nrounds(&cache->mag);
	if (!cache->destroyed)
		out->ndepot += quarantine_count(&cache->quarantine);
	out->ncpu = size_min(out->ncpu, used);
	out->ndepot = size_min(out->ndepot, used - out->ncpu);
}

static void
stats_read_cache(struct umem_cache *cache, struct stats_cache *out)
{
	size_t used = slab_used(&cache->slabs);

	lock_assert_held(&cache_list_lock);
	out->name = cache->name;
	out->class = cache->class;
	out->address = cache->class == 0 ? (uintptr_t)cache : 0;
	out->chunk = cache->slabs.layout.chunk;
	out->memory = slab_memory(&cache->slabs);
	out->absent =
	    cache->slabs.source != NULL || cache->slabs.has_guard_pages
		? 0
		: cache->slabs.layout.slab_bytes - out->memory;
	out->is_firewalled = cache->slabs.has_guard_pages;
	out->nslabs = load_relaxed(&cache->slabs.nslabs);
	out->nchunks = slab_total(&cache->slabs);
	/* Slabs may have been released since the others were read. */
	out->nslabs = size_min(out->nslabs, out->nchunks);
	used = size_min(used, out->nchunks);
	stats_read_cached(cache, used, out);
	used -= out->ncpu + out->ndepot;
	out->nwaiting = cache->destroyed ? 0 : cache_deferral.waiting(cache);
	out->nwaiting = size_min(out->nwaiting, used);
	out->nlive = used - out->nwaiting;
	out->nfailed = load_relaxed(&cache->nfailed);
}

static void
stats_each_locked(
    struct list *list, void (*f)(const struct stats_cache *, void *), void *arg)
{
	lock_assert_held(&cache_list_lock);
	list_foreach (cache, list, struct umem_cache, link) {
		struct stats_cache out;

		stats_read_cache(cache, &out);
		f(&out, arg);
	}
}

void
stats_each_cache(void (*f)(const struct stats_cache *, void *), void *arg)
{
	lock_take(&cache_list_lock);
	stats_each_locked(&cache_list, f, arg);
	lock_release(&cache_list_lock);
}

/* Sums over the caches. */
struct stats_sum {
	struct umem_stats *stats;
	size_t slabs;  /* bytes of heap memory in slabs */
	size_t absent; /* bytes of heap without memory in slabs */
	size_t opened; /* bytes of the firewall's addresses that have memory */
};

static void
stats_add_cache(const struct stats_cache *cache, void *arg)
{
	struct stats_sum *sum = arg;
	struct umem_stats *stats = sum->stats;
	size_t chunk = size_min(cache->chunk, cache->memory);

	umem_assert(cache->nlive <= cache->nchunks);
	stats->ncaches++;
	stats->nfailures += cache->nfailed;
	stats->nfree += cache->nchunks - cache->nlive;
	stats->live_bytes += cache->nlive * chunk;
	stats->cpu_bytes += cache->ncpu * chunk;
	stats->depot_bytes += cache->ndepot * chunk;
	stats->waiting_bytes += cache->nwaiting * chunk;
	sum->slabs += cache->nslabs * cache->memory;
	sum->absent += cache->nslabs * cache->absent;
	if (cache->is_firewalled)
		sum->opened += cache->nslabs * cache->memory;
}

/* Fills the figures of the caches. */
static void
stats_read_caches(struct stats_sum *sum)
{
	struct umem_stats *stats = sum->stats;
	size_t ncaches;

	lock_take(&cache_list_lock);
	stats_each_locked(&cache_list, stats_add_cache, sum);
	ncaches = stats->ncaches;
	stats_each_locked(&cache_destroyed_list, stats_add_cache, sum);
	lock_release(&cache_list_lock);
	stats->ncaches = ncaches;
	stats->slab_bytes = difference_or_zero(sum->slabs,
	    account_get(&account.purged) + stats->live_bytes +
		stats->cpu_bytes + stats->depot_bytes + stats->waiting_bytes);
	stats->cached_bytes =
	    stats->cpu_bytes + stats->depot_bytes + stats->slab_bytes;
}

/* Fills the figures of large blocks, samples and arenas. */
static void
stats_read_large(struct umem_stats *stats)
{
	stats->sampled_bytes = account_get(&account.sample_pages) +
			       account_get(&account.sample_guarded) +
			       account_get(&account.sample_warm);
	stats->large_bytes = difference_or_zero(
	    account_get(&account.large), account_get(&account.sample_spans));
	stats->nlarge = large_count() + sample_guarded_count();
	stats->arena_bytes = account_get(&account.program);
	stats->live_bytes += stats->large_bytes + stats->arena_bytes;
	stats->nfailures += account_get(&account.nlarge_failed);
	stats->nwrong_sizes = account_get(&account.nwrong_sizes);
	stats->allocated_bytes = account_get(&account.allocated);
	stats->freed_bytes = account_get(&account.freed);
	stats->nallocated =
	    account_get(&account.nallocated) / SAMPLE_BLOCK_PARTS;
	stats->nfreed = account_get(&account.nfreed) / SAMPLE_BLOCK_PARTS;
}

static void
stats_read_limits(struct umem_stats *stats)
{
	stats->sample_bytes = load_relaxed(&sampling.mean);
	stats->soft_limit_bytes = load_relaxed(&heap_limits.soft);
	stats->nsoft_limit = load_relaxed(&heap_limits.nsoft);
	stats->hard_limit_bytes = load_relaxed(&heap_limits.hard);
	stats->nhard_limit = load_relaxed(&heap_limits.nhard);
	stats->limited_bytes = heap_held();
}

/* Returns the bytes that heap_used() counts and that are not the program's. */
static size_t
stats_absent(const struct stats_sum *sum)
{
	return heap_foreign() + account_get(&account.purged) +
	       account_get(&account.donated) +
	       account_get(&account.quarantined) + sum->absent +
	       account_samples_absent() +
	       difference_or_zero(account_get(&account.firewall), sum->opened);
}

static void
stats_read_once(struct umem_stats *stats)
{
	struct stats_sum sum = {.stats = stats};

	*stats = (struct umem_stats){0};
	stats_read_caches(&sum);
	stats_read_large(stats);
	stats_read_limits(stats);
	stats->dirty_bytes = heap_dirty();
	stats->committed_bytes = heap_committed();
	stats->own_bytes = meta_mapped() + account_get(&account.donated) +
			   account_get(&account.tables);
	stats->heap_bytes = difference_or_zero(
	    heap_used() + stats->dirty_bytes, stats_absent(&sum));
	stats->mapped_bytes = stats->heap_bytes + stats->own_bytes;
}

ssize_t
stats_unaccounted(const struct umem_stats *stats)
{
	return (ssize_t)(stats->heap_bytes - stats->live_bytes -
			 stats->cached_bytes - stats->waiting_bytes -
			 stats->dirty_bytes - stats->sampled_bytes);
}

/*
 * Reads again until the sum of the parts is within 1 % of the heap, because
 * other threads may have changed much meanwhile.  In a child of fork() the sum
 * may stay wrong.
 */
void
stats_read(struct umem_stats *stats)
{
	*stats = (struct umem_stats){0};
	if (!umem_ready())
		return;
	for (unsigned i = 0; i < STATS_TRIES; i++) {
		ssize_t wrong;

		stats_read_once(stats);
		wrong = stats_unaccounted(stats);
		if ((size_t)(wrong < 0 ? -wrong : wrong) <=
		    stats->heap_bytes / 100)
			break;
	}
}

public int
umem_stats(struct umem_stats *out, size_t bytes)
{
	if (out == NULL || bytes != sizeof(*out) || !umem_ready())
		return fail_int(EINVAL);
	stats_read(out);
	return 0;
}
