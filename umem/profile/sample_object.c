/*
 * sample_object.c - samples among the objects of caches
 *
 * An object that becomes a sample is a sample like every other (sample.c): it
 * has units for itself, and is in no slab.  Its record has the cache.  The
 * constructor runs when the sample is taken, and the destructor when it is
 * freed, as for an object whose slab is created and destroyed.  So a sample
 * never enters a magazine, and each is counted and constructed once.
 *
 * Which objects are counted
 *	The fast path of a free must notice a sample, and it must not become
 *	longer.  It already reads the header to which it pushes
 *	(cache_choose_fast()).  Therefore a cache whose objects are counted
 *	shows the fast paths the header that refuses, as a cache with a limit
 *	does.  Both slow paths then try the section on the true header.  While
 *	sampling is off, nothing changes.  While it is on, a pair of calls takes
 *	28 ns instead of 12 (AMD EPYC, 27 November 2026).  Marked rounds, which
 *	decide about small blocks, would make the allocation as fast as before,
 *	but not the free.
 *	    A cache changes lazily: the first slow path after the change closes
 *	or opens the fast paths.  A cache that grows takes a slow path with each
 *	refill, so its growth is counted.  umem_sample() and the umem command
 *	need not visit the caches.
 *	    The cache stays closed while one of its objects is a sample, also
 *	when sampling is off.
 *	    A process whose objects are debugged, or watched by a memory
 *	checker, may not sample (sample_start()).
 *
 * Not counted (may_be_sampled)
 *	Objects of a source other than the heap, resources and pieces of arenas:
 *	a sample has memory of the heap.
 *	Type-stable objects: readers may still read an object after its free,
 *	when the memory of a sample is gone.
 *	Objects of a cache that has been used with umem_cache_free_rcu(): its
 *	fast path would push a sample unnoticed (sample_object_exclude()).
 *
 * Correctness of the closed fast paths
 *	nsamples, is_sampled and fast_at change with limit_lock held.  The
 *	thread that takes a sample increases nsamples, and thereby closes the
 *	fast paths, before it returns the object.  A thread that frees the
 *	object has received it from this thread, so its load of fast_at, which
 *	the library makes after that, returns the value of that store or of a
 *	later one.  A later store opens the fast paths only if nsamples is 0,
 *	that is, after the object was freed.
 */
#include "umem/cache/cache_hooks.h"
#include "umem/base/page_map.h"
#include "umem/debug/report.h"
#include "umem/profile/sample_count.h"
#include "umem/profile/sample_object.h"
#include "umem/upkeep/update.h"
#include "vmem/lock.h"
#include "vmem/panic.h"

/* Must an object that is allocated now be counted? */
static bool
is_counted(const struct umem_cache *cache)
{
	return sample_is_on() && load_relaxed(&cache->may_be_sampled);
}

/* Must the fast paths be closed? */
static bool
must_be_closed(const struct umem_cache *cache)
{
	return is_counted(cache) || load_relaxed(&cache->nsamples) != 0;
}

/*
 * Changes the number of samples, and closes or opens the fast paths
 * accordingly.  Returns false if a sample may not be added.
 */
static bool
change_samples(struct umem_cache *cache, int more)
{
	bool may;

	lock_take(&limit_lock);
	may = more <= 0 || load_relaxed(&cache->may_be_sampled);
	umem_assert(more >= 0 || cache->nsamples != 0);
	if (may)
		add_relaxed(&cache->nsamples, (uint32_t)more);
	store_relaxed(&cache->is_sampled, must_be_closed(cache));
	cache_choose_fast(cache);
	lock_release(&limit_lock);
	return may;
}

/*
 * A thread that adds a sample reads may_be_sampled with the lock held.  So
 * either it reads false, or change_samples() here takes the lock after it.
 */
void
sample_object_exclude(struct umem_cache *cache)
{
	store_relaxed(&cache->may_be_sampled, false);
	change_samples(cache, 0);
}

/* Counts an object.  Must it be a sample? */
static bool
is_due(size_t size)
{
	if (likely(size <= SIZE_SMALL)) {
		if (likely(sample_count_within(size)))
			return false;
		sample_count_undo(size);
	}
	return sample_count_block(size);
}

/* Takes a sample that is constructed; NULL: that is not possible. */
static void *
sample_make(struct umem_cache *cache)
{
	bool zeroed;
	void *p = sample_take(cache->bufsize, cache->align, cache, &zeroed);

	if (p == NULL)
		return NULL;
	if (!change_samples(cache, 1)) {
		sample_drop(p);
		return NULL;
	}
	if (cache->construct == NULL ||
	    cache->construct(p, cache->priv, UMEM_DEFAULT) == 0)
		return p;
	sample_drop(p);
	change_samples(cache, -1);
	return NULL;
}

void *
sample_object_instead_slow(struct umem_cache *cache, void *object)
{
	unsigned work = 0;
	void *p;

	if (unlikely(cache_is_sampled(cache) != must_be_closed(cache)))
		change_samples(cache, 0);
	if (!is_counted(cache) || likely(!is_due(cache->bufsize)))
		return object;
	p = sample_make(cache);
	if (p == NULL)
		return object;
	cache_free_slow(cache, object, "umem_cache_alloc", &work);
	if (work != 0)
		update_run(work);
	return p;
}

/* Live samples of a cache. */
struct some {
	const struct umem_cache *cache;
	const struct sample **found;
	unsigned n, most;
};

static void
find_one(struct sample *s, void *arg)
{
	struct some *some = arg;

	if (s->cache == some->cache && some->n < some->most)
		some->found[some->n++] = s;
}

static unsigned
find_some(
    const struct umem_cache *cache, const struct sample **found, unsigned most)
{
	struct some some = {.cache = cache, .found = found, .most = most};

	sample_each(find_one, &some);
	return some.n;
}

/*
 * No thread may free objects of a cache that is destroyed.  If one does, the
 * report is wrong, but nothing faults: records stay mapped.
 */
static void
report_sample(const struct sample *sample)
{
	report_line("    %p", (void *)sample->block);
	sample_report_callers(sample);
	report_send();
}

const struct cache_sampler cache_sampler = {
    .find = find_some, .report = report_sample};

bool
sample_is_object_of(const struct umem_cache *cache, const void *p)
{
	uint32_t index = cache_is_sampled(cache) ? page_map_sample_at(p) : 0;

	return index != 0 && sample_cache(index) == cache;
}

bool
sample_object_free_slow(struct umem_cache *cache, void *object, const char *api)
{
	if (object == NULL || !sample_is_object_of(cache, object))
		return false;
	sample_free_object(page_map_sample_at(object), object, api);
	change_samples(cache, -1);
	cache_count_off(cache, 1);
	return true;
}
