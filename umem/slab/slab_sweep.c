/*
 * slab_sweep.c - purges free pages within slabs
 *
 * A sweep gives the pages of a sparsely used slab in which every chunk is free
 * to the kernel, because no other cache can use them.  A slab has at most
 * SLAB_PARTS_MOST parts, each a page or several; slab->purged says which parts
 * are purged.  A chunk that is taken brings its pages back, by a fault.
 * Constructed chunks are not purged.  A swept slab goes to the tail of its
 * list, so that it is the last to be taken from, and a sweep ends at the first
 * slab that was swept before.
 *
 * Locking
 *	store->lock, as in slab.c.  A sweep isolates a slab (store->aside)
 *	before it calls the kernel.  Because no thread takes from an isolated
 *	slab, its free chunks stay free while other threads give chunks back.
 *	There is one sweep at a time (worker.c).  A slab that is isolated when a
 *	sweep begins was therefore isolated before a fork, by a thread that does
 *	not exist in this process.
 */
#include "umem/slab/slab_inner.h"
#include "vmem/heap.h"
#include "vmem/os.h"

static size_t swept_bytes; /* [a] of all stores */

void
slab_purged_set(struct slab_store *store, struct slab *slab, uint64_t parts)
{
	long now = __builtin_popcountll(parts);
	long was = __builtin_popcountll(slab->purged);

	slab->purged = parts;
	__atomic_add_fetch(&swept_bytes,
	    (size_t)(now - was) * store->part_bytes, __ATOMIC_RELAXED);
}

bool
slab_range_is_free(const struct slab_store *store, const struct slab *slab,
    size_t from, size_t to)
{
	size_t chunk = store->layout.chunk;
	size_t first = slab_first(store, slab) - slab->span;
	size_t end = first + store->layout.nchunks * chunk;

	from = from < first ? first : from;
	to = to < end ? to : end;
	if (from >= to)
		return true;
	for (size_t i = (from - first) / chunk; i <= (to - 1 - first) / chunk;
	     i++)
		if ((slab->bits[i / 64] >> (i % 64) & 1) == 0)
			return false;
	return true;
}

/* Returns the parts that have memory but no chunk in use. */
static uint64_t
idle_parts(const struct slab_store *store, const struct slab *slab)
{
	size_t part = store->part_bytes, bytes = store->layout.slab_bytes;
	uint64_t parts = 0;

	for (size_t at = 0, i = 0; at < bytes; at += part, i++) {
		size_t end = at + part < bytes ? at + part : bytes;

		if ((slab->purged >> i & 1) == 0 &&
		    slab_range_is_free(store, slab, at, end))
			parts |= (uint64_t)1 << i;
	}
	return parts;
}

/*
 * Purges parts of an isolated slab: their chunks are free and stay free.
 * Returns the parts that the kernel took, and adds their bytes to *purged.
 */
static uint64_t
parts_purge(const struct slab_store *store, const struct slab *slab,
    uint64_t parts, size_t *purged)
{
	size_t part = store->part_bytes, bytes = store->layout.slab_bytes;
	uint64_t done = 0;

	while (parts != 0) {
		unsigned from = lowbit(parts);
		uint64_t past = ~parts & ~(bit_range(0, from));
		unsigned to = past == 0 ? 64 : lowbit(past);
		size_t end = to * part < bytes ? to * part : bytes;

		if (!os_purge(
			(void *)(slab->span + from * part), end - from * part))
			break;
		done |= bit_range(from, to - 1);
		parts &= ~done;
		*purged += end - from * part;
	}
	return done;
}

/*
 * Finds a slab that was not swept, in the lists from SLAB_BINS - 1 down to
 * last.
 */
static struct slab *
unswept_locked(struct slab_store *store, unsigned last)
{
	for (unsigned bin = SLAB_BINS; bin > last; bin--)
		if (!list_empty(&store->partial[bin - 1])) {
			struct slab *slab = list_first(
			    &store->partial[bin - 1], struct slab, link);

			if (!slab->swept)
				return slab;
		}
	return NULL;
}

/* Isolates the slab, so that no thread takes from it. */
static void
put_aside_locked(struct slab_store *store, struct slab *slab)
{
	list_remove(&slab->link);
	slab->bin = SLAB_BIN_ASIDE;
	store->aside = slab;
}

/* Lists the isolated slab again. */
static void
put_back_locked(struct slab_store *store)
{
	struct slab *slab = store->aside;

	store->aside = NULL;
	list_init(&slab->link);
	slab->bin = SLAB_BIN_FULL;
	slab_rebin_locked(store, slab);
}

/*
 * Sweeps one slab.  Returns false if there is none, or if the kernel refuses.
 */
static bool
sweep_one(struct slab_store *store, unsigned last, size_t *purged)
{
	struct slab *slab, *surplus;
	uint64_t parts, done;

	lock_take(&store->lock);
	slab = unswept_locked(store, last);
	if (slab != NULL) {
		slab->swept = 1;
		put_aside_locked(store, slab);
		parts = idle_parts(store, slab);
	}
	lock_release(&store->lock);
	if (slab == NULL)
		return false;
	done = parts_purge(store, slab, parts, purged);
	lock_take(&store->lock);
	slab_purged_set(store, slab, slab->purged | done);
	/* The next sweep tries again after a refusal. */
	if (done != parts)
		slab->swept = 0;
	put_back_locked(store);
	surplus = slab_surplus_locked(store, SLAB_EMPTY_KEPT);
	lock_release(&store->lock);
	slab_destroy_all(store, surplus);
	return done == parts;
}

void
slab_sweep_mend(struct slab_store *store)
{
	lock_take(&store->lock);
	if (store->aside != NULL)
		put_back_locked(store);
	lock_release(&store->lock);
}

static size_t
sweep(struct slab_store *store, unsigned last, size_t limit)
{
	/*
	 * The number of slabs to sweep is limited.  Otherwise a sweep might not
	 * end while other threads free.
	 */
	uint32_t left = __atomic_load_n(&store->nslabs, __ATOMIC_RELAXED);
	size_t purged = 0;

	/* Free chunks of a debugged cache keep their contents. */
	if (store->source != NULL || store->constructs || store->stable ||
	    store->record_bytes != 0)
		return 0;
	slab_sweep_mend(store);
	while (left-- > 0 && purged < limit && os_purge_may() &&
	       sweep_one(store, last, &purged))
		;
	if (purged != 0)
		heap_forbid_huge();
	return purged;
}

size_t
slab_sweep(struct slab_store *store, size_t limit)
{
	return sweep(store, SLAB_BIN_SPARSE, limit);
}

size_t
slab_sweep_all(struct slab_store *store)
{
	return sweep(store, 0, SIZE_MAX);
}

size_t
slab_swept_bytes(void)
{
	return __atomic_load_n(&swept_bytes, __ATOMIC_RELAXED);
}
