/*
 * slab_inner.h - what the files of slabs share; see slab.c
 *
 * slab_hash.c finds slabs by their spans, slab_sweep.c gives free pages in them
 * to the kernel, slab_retire.c has the slabs that wait for a grace period,
 * slab_check.c says whether a store is as it should be.
 */
#ifndef UMEM_SLAB_INNER_H
#define UMEM_SLAB_INNER_H

#include "umem/slab.h"

/* See slab.c, "Empty slabs". */
#define SLAB_EMPTY_KEPT 1
/* Parts of a slab that can be without memory. */
#define SLAB_PARTS_MOST 64

/* Where a slab is that is in no partial list. */
#define SLAB_BIN_FULL    SLAB_BINS
#define SLAB_BIN_EMPTY   (SLAB_BINS + 1)
#define SLAB_BIN_ASIDE   (SLAB_BINS + 2)
/* On store->retired: empty, and stays so. */
#define SLAB_BIN_RETIRED (SLAB_BINS + 3)
/* Lists of slabs that are half empty or more. */
#define SLAB_BIN_SPARSE  (SLAB_BINS / 2)

static inline unsigned
slab_nwords(const struct slab_store *store)
{
	return (store->layout.nchunks + 63) / 64;
}

/* The bit map, of those in a description, that tells what the program holds. */
static inline unsigned
slab_held_map(const struct slab_store *store)
{
	return store->constructs ? 2 : 1;
}

/*
 * Where the first chunk is.  Of watched slabs that is written the other way
 * round, or memcheck would take it for somebody's pointer to that object.
 */
static inline uintptr_t
slab_first(const struct slab_store *store, const struct slab *slab)
{
	return unlikely(store->watched) ? ~slab->first : slab->first;
}

static inline struct list *
bin_list(struct slab_store *store, unsigned bin)
{
	if (bin == SLAB_BIN_FULL)
		return &store->full;
	if (bin == SLAB_BIN_EMPTY)
		return &store->empty;
	if (bin == SLAB_BIN_RETIRED)
		return &store->retired;
	return &store->partial[bin];
}

/* Bits from to to, both included. */
static inline uint64_t
bit_range(size_t from, size_t to)
{
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
bin_of(const struct slab_store *store, const struct slab *slab)
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

/* To another list, unless it is aside. */
void slab_rebin_to_locked(
    struct slab_store *store, struct slab *slab, unsigned bin);

/* After nfree changed. */
static inline void
slab_rebin_locked(struct slab_store *store, struct slab *slab)
{
	unsigned bin = bin_of(store, slab);

	if (bin != slab->bin)
		slab_rebin_to_locked(store, slab, bin);
}

/*
 * Empty slabs beyond keep, as a chain; they are ended without the lock.  Of a
 * stable store none: then the wish is noted for slab_retire().
 */
struct slab *slab_surplus_locked(struct slab_store *store, unsigned keep);
void slab_destroy_all(struct slab_store *store, struct slab *chain);

/* Notes that the empty slabs of a stable store beyond keep may go. */
void slab_want_retire_locked(struct slab_store *store, unsigned keep);

/* Takes an empty slab off its list, so that no allocation finds it. */
void slab_detach_locked(struct slab_store *store, struct slab *slab);

/* Removes a slab, which is on no list, from the store. */
void slab_disown_locked(struct slab_store *store, struct slab *slab);

/* Chains for one more slab; false: no memory. */
bool slab_hash_ready(struct slab_store *store);
void slab_hash_put_locked(struct slab_store *store, struct slab *slab);
void slab_hash_remove_locked(struct slab_store *store, struct slab *slab);
struct slab *slab_hash_find_locked(struct slab_store *store, uintptr_t p);

/* In a child of fork(), of a sweep that was in the parent.  Not beside one. */
void slab_sweep_mend(struct slab_store *store);

/* Parts that have no memory, from now on. */
void slab_purged_set(
    struct slab_store *store, struct slab *slab, uint64_t parts);

/* Is no chunk in use that lies in [from, to) of the slab, even in part? */
bool slab_range_is_free(const struct slab_store *store, const struct slab *slab,
    size_t from, size_t to);

#endif
