/* slab_check.c - is a store as slab.c says that it always is? */
#include "umem/slab_inner.h"

/* Parts without memory have no chunk in use. */
static bool
purged_is_right(const struct slab_store *store, const struct slab *slab)
{
	for (uint64_t parts = slab->purged; parts != 0; parts &= parts - 1) {
		size_t at = lowbit(parts) * store->part_bytes;

		if (!slab_range_is_free(
			store, slab, at, at + store->part_bytes))
			return false;
	}
	return true;
}

/* Adds how many chunks are free. */
static bool
slab_is_right(
    const struct slab_store *store, const struct slab *slab, size_t *nfree)
{
	size_t n = 0;

	for (unsigned w = 0; w < slab_nwords(store); w++)
		n += bit_count(slab->bits[w]);
	*nfree += n;
	return n == slab->nfree && slab->store == store &&
	       purged_is_right(store, slab);
}

/* The slabs of one list: do they belong there? */
static bool
bin_is_right(
    struct slab_store *store, unsigned bin, size_t *nslabs, size_t *nfree)
{
	list_foreach (item, bin_list(store, bin)) {
		struct slab *slab = container_of(item, struct slab, link);

		if (!slab_is_right(store, slab, nfree) || slab->bin != bin ||
		    bin_of(store, slab) != bin)
			return false;
		*nslabs += 1;
	}
	return true;
}

bool
slab_store_check(struct slab_store *store)
{
	size_t nslabs = 0, nfree = 0;
	bool right = true;

	lock_take(&store->lock);
	for (unsigned bin = 0; bin <= SLAB_BIN_EMPTY; bin++)
		right = right && bin_is_right(store, bin, &nslabs, &nfree);
	if (store->aside != NULL) {
		right = right && store->aside->bin == SLAB_BIN_ASIDE &&
			slab_is_right(store, store->aside, &nfree);
		nslabs++;
	}
	right = right && nslabs == store->nslabs &&
		store->nused + nfree == nslabs * store->layout.nchunks;
	lock_release(&store->lock);
	return right;
}
