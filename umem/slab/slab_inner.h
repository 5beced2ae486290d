/*
 * slab_inner.h - declarations that the files of slabs share; see slab.c
 *
 * slab_take.c and slab_give.c take and give chunks, slab_hash.c finds slabs by
 * their spans, page_purge.c purges free pages in slabs, slab_retire.c has the
 * slabs that wait for a grace period, slab_check.c checks the invariants of a
 * store.
 */
#ifndef UMEM_SLAB_INNER_H
#define UMEM_SLAB_INNER_H

#include "umem/slab/slab.h"
#include "vmem/panic.h"

/* The empty slabs that a store keeps; see slab.c, "Empty slabs". */
#define SLAB_EMPTY_KEPT 1
/* The most parts that a slab is divided into for purging. */
#define SLAB_PARTS_MAX  64

_Static_assert(
    SLAB_PARTS_MAX <= 64, "slab->purged_parts has a bit for each part");

/* Values of slab->bin for a slab that is in no partial list. */
#define SLAB_BIN_FULL     SLAB_BINS
#define SLAB_BIN_EMPTY    (SLAB_BINS + 1)
#define SLAB_BIN_ISOLATED (SLAB_BINS + 2)
/* On store->retired: empty, and no longer used for allocations. */
#define SLAB_BIN_RETIRED  (SLAB_BINS + 3)

static inline unsigned
slab_nwords(const struct slab_store *store)
{
	return (store->layout.nchunks + 63) / 64;
}

/*
 * The address of the first chunk.  In watched slabs slab->first has its
 * complement.  Otherwise memcheck would take slab->first for a pointer of the
 * program to that object.
 */
static inline uintptr_t
slab_first(const struct slab_store *store, const struct slab *slab)
{
	return unlikely(store->is_annotated) ? ~slab->first : slab->first;
}

static inline struct list *
slab_bin_list(struct slab_store *store, unsigned bin)
{
	if (bin == SLAB_BIN_FULL)
		return &store->full;
	if (bin == SLAB_BIN_EMPTY)
		return &store->empty;
	if (bin == SLAB_BIN_RETIRED)
		return &store->retired;
	return &store->partial[bin];
}

/* A mask of the bits from from to to, both included. */
static inline uint64_t
bit_range(size_t from, size_t to)
{
	umem_assert(from <= to && to < 64);
	return (~(uint64_t)0 >> (63 - (to - from))) << from;
}

static inline unsigned
bit_count(uint64_t bits)
{
	bits -= bits >> 1 & 0x5555555555555555;
	bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (unsigned)(bits * 0x0101010101010101 >> 56);
}

static inline unsigned
slab_bin_for(const struct slab_store *store, const struct slab *slab)
{
	unsigned bin = 0;

	if (slab->nfree == 0)
		return SLAB_BIN_FULL;
	if (slab->nfree == store->layout.nchunks)
		return slab->bin == SLAB_BIN_RETIRED ? SLAB_BIN_RETIRED
						     : SLAB_BIN_EMPTY;
	for (unsigned i = 1; i < SLAB_BINS; i++)
		bin += (uint64_t)slab->nfree * SLAB_BINS >=
		       i * (store->layout.nchunks + 1ull);
	return bin;
}

/* Moves the slab to another list, unless a purge has isolated it. */
void slab_rebin_to_locked(
    struct slab_store *store, struct slab *slab, unsigned bin);

/* Moves the slab to the list that its nfree asks for. */
static inline void
slab_rebin_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->nfree >= slab->nraw);

	unsigned bin = slab_bin_for(store, slab);

	if (bin != slab->bin)
		slab_rebin_to_locked(store, slab, bin);
}

/*
 * Because slab_used(), slab_total() and slab_nready() read without the lock,
 * the stores to the counts are atomic.
 */

/* Change a number of chunks, or of slabs, that others read without the lock. */
static inline void
nchunks_add_locked(struct slab_store *store, size_t *nchunks, long n)
{
	lock_assert_held(&store->lock);
	umem_assert(n >= 0 || *nchunks >= (size_t)-n);
	store_relaxed(nchunks, *nchunks + (size_t)n);
}

static inline void
nslabs_add_locked(struct slab_store *store, uint32_t *nslabs, int n)
{
	lock_assert_held(&store->lock);
	umem_assert(n >= 0 || *nslabs >= (uint32_t)-n);
	store_relaxed(nslabs, *nslabs + (uint32_t)n);
}

/*
 * Writes the word by one atomic store, because slab_round_fault() reads without
 * the lock.
 */
static inline void
bits_set_locked(struct slab *slab, unsigned w, uint64_t bits)
{
	lock_assert_held(&slab->store->lock);
	store_relaxed(&slab->bits[w], bits);
}

/* slab_store_check() for a caller that holds the lock. */
bool slab_store_check_locked(struct slab_store *store);

/*
 * Called before the lock is released after a change.  In a debug build, checks
 * all slabs once in about as many changes as there are slabs.
 */
static inline void
slab_sample_check_locked(struct slab_store *store)
{
	if (store->nacquired % (store->nslabs + 1) == 0)
		umem_assert(slab_store_check_locked(store));
}

/*
 * Creates a slab that is in no list and no hash yet.  Returns NULL if there is
 * no memory.
 */
struct slab *slab_create(struct slab_store *store);

/* Lists a slab that slab_create() has returned. */
void slab_register_locked(struct slab_store *store, struct slab *slab);

/* The most slabs in a chain: SLAB_CHAIN_BYTES, or one slab. */
unsigned slab_chain_most(const struct slab_store *store);

/*
 * Unlists empty slabs beyond keep and returns them as a chain, for
 * slab_destroy_surplus().  For a stable store it returns none, and notes the
 * request for slab_retire().
 */
struct slab *slab_surplus_locked(struct slab_store *store, unsigned keep);

/*
 * Destroys the slabs of the chain.  Returns whether the chain had the most
 * slabs, so that others may be left.  The caller holds no lock.
 */
bool slab_destroy_chain(struct slab_store *store, struct slab *chain);

/*
 * Destroys the slabs of the chain that slab_surplus_locked() returned, and
 * those beyond keep that it left.  The caller holds no lock.
 */
void slab_destroy_surplus(
    struct slab_store *store, struct slab *chain, unsigned keep);

/* Requests that the empty slabs of a stable store beyond keep are retired. */
void slab_want_retire_locked(struct slab_store *store, unsigned keep);

/* Takes an empty slab off its list, so that no allocation finds it. */
void slab_unlist_empty_locked(struct slab_store *store, struct slab *slab);

/* Removes a slab, which is on no list, from the store. */
void slab_unregister_locked(struct slab_store *store, struct slab *slab);

/*
 * Ensures that the hash of a store with a source has chains for one more slab.
 * Returns false if there is no memory.
 */
bool slab_hash_ready(struct slab_store *store);
void slab_hash_put_locked(struct slab_store *store, struct slab *slab);
void slab_hash_remove_locked(struct slab_store *store, struct slab *slab);

/* Is each slab of the store in its chain of the hash, and no other? */
bool slab_hash_check_locked(struct slab_store *store);

struct slab *slab_hash_find_locked(struct slab_store *store, uintptr_t p);

/*
 * In a child of fork(): lists the slab that a purge of the parent had isolated.
 * The caller ensures that no purge is running.
 */
void page_purge_recover(struct slab_store *store);

/*
 * Sets the parts of the slab that are purged, and updates page_purge_bytes().
 */
void page_purge_record(
    struct slab_store *store, struct slab *slab, uint64_t parts);

/* Returns whether the range [from, to) of the slab overlaps no chunk in use. */
bool slab_range_is_free(const struct slab_store *store, const struct slab *slab,
    size_t from, size_t to);

#endif
