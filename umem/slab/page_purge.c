/*
 * page_purge.c - purges free pages within slabs
 *
 * A purge gives the pages of a partly used slab in which every chunk is free
 * to the kernel, because no other cache can use them.  A slab has at most
 * SLAB_PARTS_MAX parts, each a page or several; slab->purged_parts says which
 * parts are purged.  A chunk that is taken brings its pages back, by a fault.
 * Constructed chunks are not purged.  A purged slab goes to the tail of its
 * list, so that it is the last to be taken from, and a purge ends at the first
 * slab that was purged before.
 *
 * Locking
 *	store->lock, as in slab.c.  A purge isolates a slab (store->isolated)
 *	before it calls the kernel.  Because no thread takes from an isolated
 *	slab, its free chunks stay free while other threads give chunks back.
 *	There is one purge at a time (worker.c).  A slab that is isolated when a
 *	purge begins was therefore isolated before a fork, by a thread that does
 *	not exist in this process.
 */
#include "umem/slab/slab_inner.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/probe.h"

/* Returns the bytes of parts of a slab; the last part may be shorter. */
static size_t
page_purge_part_bytes(const struct slab_store *store, uint64_t parts)
{
	size_t part = store->part_bytes, bytes = store->layout.slab_bytes;
	size_t all = (size_t)__builtin_popcountll(parts) * part;
	size_t last = (bytes - 1) / part;

	return (parts >> last & 1) == 0 ? all
					: all - ((last + 1) * part - bytes);
}

void
page_purge_record(struct slab_store *store, struct slab *slab, uint64_t parts)
{
	lock_assert_held(&store->lock);

	size_t now = page_purge_part_bytes(store, parts);
	size_t was = page_purge_part_bytes(store, slab->purged_parts);

	slab->purged_parts = parts;
	account_add(&account.purged, now - was);
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
page_purge_idle_parts(const struct slab_store *store, const struct slab *slab)
{
	size_t part = store->part_bytes, bytes = store->layout.slab_bytes;
	uint64_t parts = 0;

	for (size_t at = 0, i = 0; at < bytes; at += part, i++) {
		size_t end = at + part < bytes ? at + part : bytes;

		if ((slab->purged_parts >> i & 1) == 0 &&
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
page_purge_parts(const struct slab_store *store, const struct slab *slab,
    uint64_t parts, size_t *purged)
{
	umem_assert(slab->bin == SLAB_BIN_ISOLATED);

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
		probe_fire(
		    umem, purge, slab->span + from * part, end - from * part);
		done |= bit_range(from, to - 1);
		parts &= ~done;
		*purged += end - from * part;
	}
	return done;
}

/* Finds a slab that was not purged, in the list of the emptiest first. */
static struct slab *
page_purge_next_locked(struct slab_store *store)
{
	lock_assert_held(&store->lock);
	for (unsigned bin = SLAB_BINS; bin > 0; bin--)
		if (!list_empty(&store->partial[bin - 1])) {
			struct slab *slab = list_first(
			    &store->partial[bin - 1], struct slab, link);

			if (!slab->was_purged)
				return slab;
		}
	return NULL;
}

/* Isolates the slab, so that no thread takes from it. */
static void
slab_isolate_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(store->isolated == NULL && slab->bin < SLAB_BINS);
	list_remove(&slab->link);
	slab->bin = SLAB_BIN_ISOLATED;
	store->isolated = slab;
}

/* Lists the isolated slab again. */
static void
slab_relist_locked(struct slab_store *store)
{
	lock_assert_held(&store->lock);

	struct slab *slab = store->isolated;

	umem_assert(slab->bin == SLAB_BIN_ISOLATED);
	store->isolated = NULL;
	list_init(&slab->link);
	slab->bin = SLAB_BIN_FULL;
	slab_rebin_locked(store, slab);
}

/*
 * Purges one slab.  Returns false if there is none, or if the kernel refuses.
 */
static bool
page_purge_slab(struct slab_store *store, size_t *purged)
{
	struct slab *slab, *surplus;
	uint64_t parts, done;

	lock_take(&store->lock);
	slab = page_purge_next_locked(store);
	if (slab != NULL) {
		slab->was_purged = 1;
		slab_isolate_locked(store, slab);
		parts = page_purge_idle_parts(store, slab);
	}
	lock_release(&store->lock);
	if (slab == NULL)
		return false;
	done = page_purge_parts(store, slab, parts, purged);
	lock_take(&store->lock);
	page_purge_record(store, slab, slab->purged_parts | done);
	/* The next purge tries again after a refusal. */
	if (done != parts)
		slab->was_purged = 0;
	slab_relist_locked(store);
	surplus = slab_surplus_locked(store, SLAB_EMPTY_KEPT);
	slab_sample_check_locked(store);
	lock_release(&store->lock);
	slab_destroy_surplus(store, surplus, SLAB_EMPTY_KEPT);
	return done == parts;
}

void
page_purge_recover(struct slab_store *store)
{
	lock_take(&store->lock);
	if (store->isolated != NULL)
		slab_relist_locked(store);
	lock_release(&store->lock);
}

size_t
page_purge(struct slab_store *store, size_t limit)
{
	/*
	 * The number of slabs to purge is limited.  Otherwise a purge might not
	 * end while other threads free.
	 */
	uint32_t left = load_relaxed(&store->nslabs);
	size_t purged = 0;

	/*
	 * Free chunks of a debugged cache keep their contents.  A function that
	 * a purge has called may be here while its slab is isolated.
	 */
	if (store->source != NULL || store->constructs ||
	    store->is_type_stable || store->record_bytes != 0 || os_is_taking())
		return 0;
	page_purge_recover(store);
	while (left-- > 0 && purged < limit && os_may_purge() &&
	       page_purge_slab(store, &purged))
		;
	if (purged != 0)
		heap_forbid_huge();
	return purged;
}

size_t
page_purge_bytes(void)
{
	return account_get(&account.purged);
}
