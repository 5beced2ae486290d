/*
 * slab_retire.c - retires the slabs of type-stable stores for a grace period
 *
 * A type-stable store (store->is_type_stable, UMC_TYPESAFE_BY_RCU) promises a
 * reader in a read-side critical section that a pointer to an object of the
 * store stays a pointer to an object of the store.  The program may have freed
 * the object meanwhile, and another thread may have allocated it again.  Its
 * memory is never another type's, never unmapped or purged, and the destructor
 * has not run on it.
 *
 * An empty slab therefore leaves the store in two steps, between which the
 * caller waits for a grace period:
 *
 *	state		step			effect
 *	empty		slab_retire()		on store->retired: no allocation
 *						finds it
 *	retired		(a grace period)	readers that found one of its
 *						objects leave their sections
 *	retired		slab_end_retired()	destructors run, memory goes
 *
 * The order is sufficient.  Every object of an empty slab was removed from the
 * program's structures before it was freed, and freed before the slab was
 * retired.  Because no allocation returns an object of a retired slab, no
 * reader that begins later can find one.
 *
 * Batches
 *	The slabs of one call of slab_retire() are a batch, and batches have
 *	ascending numbers.  A grace period is good for the batches that were
 *	retired before it began.  A slab that is retired while the caller waits
 *	has a higher number, so slab_end_retired() leaves it for the next grace
 *	period.  Numbers wrap, so they are compared by their distance.  This is
 *	below 2^31, because each batch between two that wait has a slab that
 *	waits, too.
 *	A caller that never ends its batch does no harm: a later number covers
 *	it.  This happens in a child of fork(), where the waiting thread of the
 *	parent does not exist.
 *
 * Requests
 *	slab_reap() and slab_reap_unused() release no slab of such a store.
 *	They note the number of empty slabs to keep (store->retire_wanted) and
 *	call owner->want_retire() without a lock.  slab_retire() clears the
 *	note.  page_purge.c purges no page of such a store.
 *
 * A retired slab counts in store->nslabs, and stays in the page map or the
 * hash until slab_end_retired(), so that a free of one of its objects is found
 * to be a second free.  Its raw chunks do not count in store->nraw.
 *
 * Locking: store->lock, as in slab.c.  Destructors and the arena are called
 * without it.
 *
 * Source: the contract is that of Linux's SLAB_TYPESAFE_BY_RCU, which waits for
 * one grace period per slab.
 */

#include "umem/slab/slab_inner.h"

void
slab_want_retire_locked(struct slab_store *store, unsigned keep)
{
	lock_assert_held(&store->lock);
	/* Atomic, since slab_retire_wanted() reads without the lock. */
	if (keep < slab_retire_wanted(store))
		store_relaxed(&store->retire_wanted, keep + 1);
}

unsigned
slab_retire_wanted(const struct slab_store *store)
{
	/* 0 becomes UINT_MAX. */
	return load_relaxed(&store->retire_wanted) - 1;
}

static void
slab_retire_one_locked(
    struct slab_store *store, struct slab *slab, uint32_t batch)
{
	lock_assert_held(&store->lock);
	slab_unlist_empty_locked(store, slab);
	slab->bin = SLAB_BIN_RETIRED;
	slab->batch = batch;
	list_add_tail(&store->retired, &slab->link);
	nslabs_add_locked(store, &store->nretired, 1);
}

uint32_t
slab_retire(struct slab_store *store, unsigned keep)
{
	uint32_t batch;

	lock_take(&store->lock);
	if (keep <= slab_retire_wanted(store))
		store_relaxed(&store->retire_wanted, 0);
	/* 0 is no batch. */
	if (store->nempty > keep && ++store->last_batch == 0)
		store->last_batch = 1;
	batch = store->last_batch;
	/* The slab that was empty longest goes first. */
	while (store->nempty > keep)
		slab_retire_one_locked(store,
		    container_of(store->empty.prev, struct slab, link), batch);
	if (list_empty(&store->retired))
		batch = 0;
	slab_sample_check_locked(store);
	lock_release(&store->lock);
	return batch;
}

/* Unlists retired slabs up to this batch and returns them as a chain. */
static struct slab *
slab_chain_retired_locked(struct slab_store *store, uint32_t batch)
{
	lock_assert_held(&store->lock);

	struct slab *chain = NULL;

	for (unsigned left = slab_chain_most(store);
	     left > 0 && batch != 0 && !list_empty(&store->retired); left--) {
		struct slab *slab =
		    list_first(&store->retired, struct slab, link);

		if ((int32_t)(slab->batch - batch) > 0)
			break;
		umem_assert(slab->bin == SLAB_BIN_RETIRED);
		list_remove(&slab->link);
		nslabs_add_locked(store, &store->nretired, -1);
		slab_unregister_locked(store, slab);
		slab->next = chain;
		chain = slab;
	}
	return chain;
}

void
slab_end_retired(struct slab_store *store, uint32_t batch)
{
	struct slab *chain;

	do {
		lock_take(&store->lock);
		chain = slab_chain_retired_locked(store, batch);
		lock_release(&store->lock);
	} while (slab_destroy_chain(store, chain));
}
