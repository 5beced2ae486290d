/* slab_check.c - checks the invariants of a store; see slab.c */
#include "umem/slab/slab_inner.h"
#include "umem/base/page_map.h"

/* Purged parts have no chunk in use. */
static bool
purged_parts_are_free(const struct slab_store *store, const struct slab *slab)
{
	for (uint64_t parts = slab->purged_parts; parts != 0;
	     parts &= parts - 1) {
		size_t at = lowbit(parts) * store->part_bytes;

		if (!slab_range_is_free(
			store, slab, at, at + store->part_bytes))
			return false;
	}
	return true;
}

/* Counts of free chunks, and of raw chunks among them. */
struct counts {
	size_t nfree, nraw;
};

/* Checks one slab, and adds its chunks to the counts. */
static bool
slab_is_consistent(const struct slab_store *store, const struct slab *slab,
    struct counts *counts)
{
	unsigned nwords = slab_nwords(store);
	size_t nfree = 0, nraw = 0;

	for (unsigned w = 0; w < nwords; w++) {
		nfree += bit_count(slab->bits[w]);
		if (store->constructs)
			nraw +=
			    bit_count(slab->bits[w] &
				      ~load_relaxed(&slab->bits[nwords + w]));
	}
	counts->nfree += nfree;
	counts->nraw += nraw;
	return nfree == slab->nfree && nraw == slab->nraw &&
	       slab->store == store && purged_parts_are_free(store, slab) &&
	       (store->source != NULL ||
		   page_map_check((void *)slab->span, store->layout.slab_bytes,
		       store->map_class, slab));
}

/* Checks that the slabs of one list belong there. */
static bool
bin_is_consistent(struct slab_store *store, unsigned bin, size_t *nslabs,
    struct counts *counts)
{
	list_foreach (slab, slab_bin_list(store, bin), struct slab, link) {
		if (!slab_is_consistent(store, slab, counts) ||
		    slab->bin != bin || slab_bin_for(store, slab) != bin)
			return false;
		*nslabs += 1;
	}
	return true;
}

/* Retired slabs are empty and in the order of their batches. */
static bool
retired_is_consistent(
    struct slab_store *store, size_t *nslabs, struct counts *counts)
{
	struct counts retired = {0, 0};
	uint32_t before = 0;
	size_t n = 0;

	if (!bin_is_consistent(store, SLAB_BIN_RETIRED, &n, &retired))
		return false;
	list_foreach (slab, &store->retired, struct slab, link) {
		uint32_t batch = slab->batch;

		if ((before != 0 && (int32_t)(batch - before) < 0) ||
		    (int32_t)(store->last_batch - batch) < 0)
			return false;
		before = batch;
	}
	*nslabs += n;
	counts->nfree += retired.nfree;
	return n == store->nretired && (n == 0 || store->is_type_stable);
}

bool
slab_store_check_locked(struct slab_store *store)
{
	struct counts counts = {0, 0};
	size_t nslabs = 0, nempty = 0;

	lock_assert_held(&store->lock);
	for (unsigned bin = 0; bin <= SLAB_BIN_EMPTY; bin++) {
		size_t before = nslabs;

		if (!bin_is_consistent(store, bin, &nslabs, &counts))
			return false;
		nempty = nslabs - before;
	}
	if (!retired_is_consistent(store, &nslabs, &counts))
		return false;
	if (store->isolated != NULL) {
		if (store->isolated->bin != SLAB_BIN_ISOLATED ||
		    !slab_is_consistent(store, store->isolated, &counts))
			return false;
		nslabs++;
	}
	if (store->source != NULL && !slab_hash_check_locked(store))
		return false;
	return nslabs == store->nslabs && nempty == store->nempty &&
	       store->nunused <= nempty && store->nraw == counts.nraw &&
	       store->nused + counts.nfree == nslabs * store->layout.nchunks;
}

bool
slab_store_check(struct slab_store *store)
{
	bool consistent;

	lock_take(&store->lock);
	consistent = slab_store_check_locked(store);
	lock_release(&store->lock);
	return consistent;
}
