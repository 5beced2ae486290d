/*
 * slab_give.c - frees chunks to slabs; the slab of a chunk; see slab.c
 *
 * slab_give() finds the slabs, words and bits of chunks without the lock, as
 * claims, and sets the bits of a claim under it, after the checks that "Claims"
 * in slab.c lists.  Chunks that claims cannot express are given one by one.
 *
 * Races of slab_round_fault()
 *	A chunk is in its slab, in a magazine, or held by the program.  The
 *	slab's bit tells the first state from the other two.  A chunk that the
 *	program holds keeps its slab, and the slab keeps its description.  Only
 *	a second free can meet a slab that is being released.  It reads a
 *	description that is gone, or another in its place.  Because memory for
 *	descriptions stays mapped (meta.c), the read is harmless.
 *
 *	The function reads a word of the slab's bits without the lock, while
 *	other threads write bits of other chunks in that word.  A writer holds
 *	the lock, so it reads the word plainly, and it writes the word by one
 *	relaxed atomic store.  The bit of a chunk that is out is 0 in each of
 *	these stores: the thread that took the chunk cleared the bit, and every
 *	later store was computed under the lock from a word with that 0.  The
 *	reader cannot find an older word, because the chunk came to it by steps
 *	that order memory: the lock of the slabs, the release store of a
 *	header's top and the load of it, the depot's lock, a switch of threads
 *	on one CPU, and the program's own means.  Therefore relaxed order is
 *	enough, and a 1 is a second free.
 */
#include <limits.h>

#include "umem/slab/slab_inner.h"
#include "umem/base/page_map.h"

static struct slab *
slab_of_heap_address(const struct slab_store *store, const void *p)
{
	struct slab *slab = page_map_owner(p);

	if (slab == NULL || page_map_large_bytes(slab) != 0 ||
	    slab->store != store)
		return NULL;
	return slab;
}

/* The caller holds the lock if the store has a source. */
static struct slab *
slab_find(struct slab_store *store, void *p)
{
	if (store->source != NULL)
		return slab_hash_find_locked(store, (uintptr_t)p);
	return slab_of_heap_address(store, p);
}

/* Returns whether p is the start of a chunk, and sets *i to its index. */
static inline bool
chunk_is_start(const struct slab_store *store, const struct slab *slab, void *p,
    unsigned *i)
{
	uintptr_t first = slab_first(store, slab);
	uintptr_t offset = (uintptr_t)p - first;

	if (unlikely((uintptr_t)p < first)) {
		*i = UINT32_MAX;
		return false;
	}
	*i = (unsigned)slab_layout_index(&store->layout, offset);
	return offset == *i * store->layout.chunk && *i < store->layout.nchunks;
}

static enum slab_fault
chunk_free_fault(const struct slab_store *store, const struct slab *slab,
    void *p, unsigned *i)
{
	if (unlikely(!chunk_is_start(store, slab, p, i)))
		return SLAB_INTERIOR;
	if (slab->bits[*i / 64] >> (*i % 64) & 1)
		return *i >= slab->high ? SLAB_NEVER : SLAB_FREE;
	return SLAB_FINE;
}

/*
 * A chunk of the slab was given: the slab no longer counts as purged,
 * and may change lists.
 */
static void
slab_changed_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->nfree <= store->layout.nchunks);
	if (unlikely(slab->was_purged)) {
		slab->was_purged = 0;
		if (slab->bin != SLAB_BIN_ISOLATED) {
			list_remove(&slab->link);
			list_add_head(
			    slab_bin_list(store, slab->bin), &slab->link);
		}
	}
	slab_rebin_locked(store, slab);
}

static enum slab_fault
chunk_give_locked(struct slab_store *store, void *p, struct slab **slab_found)
{
	lock_assert_held(&store->lock);

	struct slab *slab = *slab_found;
	enum slab_fault fault;
	unsigned i;

	/* Chunks of one batch are often of one slab. */
	if (slab == NULL ||
	    (uintptr_t)p - slab->span >= store->layout.slab_bytes) {
		if (slab != NULL)
			slab_changed_locked(store, slab);
		slab = slab_find(store, p);
		*slab_found = slab;
		if (slab == NULL)
			return SLAB_FOREIGN;
	}
	fault = chunk_free_fault(store, slab, p, &i);
	if (fault != SLAB_FINE)
		return fault;
	bits_set_locked(
	    slab, i / 64, slab->bits[i / 64] | (uint64_t)1 << (i % 64));
	slab->nfree++;
	nchunks_add_locked(store, &store->nused, -1);
	if (slab->hint > i / 64)
		slab->hint = i / 64;
	return SLAB_FINE;
}

/*
 * Gives the chunks one by one: those that claims cannot express, or to find the
 * first that is bad.
 */
static enum slab_fault
chunks_give_locked(
    struct slab_store *store, void **chunks, unsigned n, void **bad)
{
	lock_assert_held(&store->lock);

	enum slab_fault fault = SLAB_FINE;
	struct slab *slab = NULL;

	for (unsigned i = 0; i < n && fault == SLAB_FINE; i++) {
		fault = chunk_give_locked(store, chunks[i], &slab);
		*bad = chunks[i];
	}
	if (slab != NULL)
		slab_changed_locked(store, slab);
	return fault;
}

/*
 * The first of n chunks has index i in its slab.  Returns the number of chunks
 * after it that continue from there one by one, up or down, without leaving the
 * word or adding a bit that is in mask.  Sets *bits to the bits of all of them,
 * the first included.
 */
static inline unsigned
claim_run_length(const struct slab_store *store, void **chunks, unsigned n,
    unsigned i, uint64_t mask, uint64_t *bits)
{
	size_t chunk = store->layout.chunk;
	size_t step;
	unsigned limit, k = 1;

	step = n < 2 ? 0 : (uintptr_t)chunks[1] - (uintptr_t)chunks[0];
	if (likely(step != chunk && step != -chunk))
		return 0;
	limit = i % 64 + 1;
	if (step == chunk)
		limit =
		    (unsigned)size_min(64 - i % 64, store->layout.nchunks - i);
	limit = (unsigned)size_min(limit, n);
	while (k < limit &&
	       (uintptr_t)chunks[k] - (uintptr_t)chunks[k - 1] == step)
		k++;
	i = step == chunk ? i % 64 : i % 64 + 1 - k;
	*bits = bit_range(i, i + k - 1);
	return k > 1 && (*bits & mask) == 0 ? k - 1 : 0;
}

/* Starts a claim for chunks of word w of a slab; mask and n are not set. */
static inline struct slab_claim *
claim_begin(const struct slab_store *store, struct slab_claims *claims,
    struct slab *slab, unsigned w)
{
	struct slab_claim *claim = &claims->claim[claims->n++];

	claim->slab = slab;
	claim->first = slab_first(store, slab);
	claim->word = w;
	__builtin_prefetch(&slab->bits[w], 1);
	return claim;
}

/*
 * Makes claims for the first chunks, until there is no room for a claim or a
 * chunk is not valid.  Returns the number of chunks covered.
 */
static unsigned
claims_make(const struct slab_store *store, void **chunks, unsigned n,
    struct slab_claims *claims)
{
	struct slab_claim *claim = NULL;
	struct slab *claimed = NULL;
	unsigned done, i, nfollowing, word = 0, count = 0;
	uint64_t mask = 0, run;

	claims->n = 0;
	for (done = 0; done < n; done++) {
		struct slab *slab = slab_of_heap_address(store, chunks[done]);
		uint64_t bit;

		if (slab == NULL ||
		    !chunk_is_start(store, slab, chunks[done], &i))
			break;
		bit = (uint64_t)1 << (i % 64);
		if (slab != claimed || i / 64 != word) {
			if (claims->n == SLAB_CLAIMS)
				break;
			claimed = slab;
			word = i / 64;
			claim = claim_begin(store, claims, slab, word);
			mask = 0;
			count = 0;
		} else if ((mask & bit) != 0) {
			break;
		}
		nfollowing = claim_run_length(
		    store, chunks + done, n - done, i, mask, &run);
		mask |= nfollowing != 0 ? run : bit;
		done += nfollowing;
		claim->mask = mask;
		claim->n = count += 1 + nfollowing;
	}
	return done;
}

/* Does the slab that claims_make() found still own the claim's chunks? */
static bool
claim_holds_locked(
    const struct slab_store *store, const struct slab_claim *claim)
{
	lock_assert_held(&store->lock);
	return slab_of_heap_address(store, (void *)claim->first) ==
		   claim->slab &&
	       slab_first(store, claim->slab) == claim->first;
}

static inline void
claim_give_locked(struct slab_store *store, const struct slab_claim *claim)
{
	lock_assert_held(&store->lock);

	struct slab *slab = claim->slab;

	bits_set_locked(
	    slab, claim->word, slab->bits[claim->word] | claim->mask);
	slab->nfree += claim->n;
	slab->hint = slab->hint < claim->word ? slab->hint : claim->word;
	slab_changed_locked(store, slab);
}

static void
claim_undo_locked(struct slab_store *store, const struct slab_claim *claim)
{
	lock_assert_held(&store->lock);

	struct slab *slab = claim->slab;

	bits_set_locked(
	    slab, claim->word, slab->bits[claim->word] & ~claim->mask);
	slab->nfree -= claim->n;
	slab_rebin_locked(store, slab);
}

/* Gives the chunks of all claims, or of none.  Returns whether it gave them. */
static bool
claims_give_locked(
    struct slab_store *store, const struct slab_claims *claims, unsigned n)
{
	lock_assert_held(&store->lock);

	const struct slab_claim *claim = claims->claim;
	const struct slab_claim *end = claim + claims->n;

	for (; claim < end; claim++) {
		if (unlikely(
			!claim_holds_locked(store, claim) ||
			(claim->slab->bits[claim->word] & claim->mask) != 0))
			break;
		claim_give_locked(store, claim);
	}
	if (likely(claim == end)) {
		nchunks_add_locked(store, &store->nused, -(long)n);
		return true;
	}
	while (claim-- > claims->claim)
		claim_undo_locked(store, claim);
	return false;
}

/* The number of empty slabs to keep when chunks are given. */
static unsigned
slab_empty_kept(const struct slab_store *store)
{
	if (store->has_guard_pages)
		return 0;
	return store->constructs || store->is_type_stable ? UINT_MAX
							  : SLAB_EMPTY_KEPT;
}

enum slab_fault
slab_give(struct slab_store *store, void **chunks, unsigned n, void **bad)
{
	enum slab_fault fault = SLAB_FINE;
	struct slab_claims claims;
	struct slab *surplus;
	unsigned keep = slab_empty_kept(store);

	while (n > 0 && fault == SLAB_FINE) {
		unsigned done = 0;

		if (store->source == NULL)
			done = claims_make(store, chunks, n, &claims);
		slab_lock_counted(store);
		if (done == 0 || !claims_give_locked(store, &claims, done)) {
			done = done == 0 ? n : done;
			fault = chunks_give_locked(store, chunks, done, bad);
		}
		surplus = slab_surplus_locked(store, keep);
		if (fault == SLAB_FINE)
			slab_sample_check_locked(store);
		lock_release(&store->lock);
		slab_destroy_surplus(store, surplus, keep);
		chunks += done;
		n -= done;
	}
	return fault;
}

enum slab_fault
slab_find_chunk(
    struct slab_store *store, void *p, struct slab **slab, unsigned *i)
{
	/* The page map is read without a lock; the hash may change. */
	if (store->source != NULL)
		lock_take(&store->lock);
	*slab = slab_find(store, p);
	if (store->source != NULL)
		lock_release(&store->lock);
	if (*slab == NULL)
		return SLAB_FOREIGN;
	return chunk_is_start(store, *slab, p, i) ? SLAB_FINE : SLAB_INTERIOR;
}

void
slab_constructed(struct slab_store *store, void *chunk)
{
	struct slab *slab;
	unsigned i;

	/* The chunk is taken, so its slab stays. */
	if (slab_find_chunk(store, chunk, &slab, &i) == SLAB_FINE)
		__atomic_fetch_or(&slab->bits[slab_nwords(store) + i / 64],
		    (uint64_t)1 << (i % 64), __ATOMIC_RELAXED);
}

void
slab_give_raw(struct slab_store *store, void *chunk)
{
	struct slab *slab = NULL;
	unsigned i;

	lock_take(&store->lock);
	if (chunk_give_locked(store, chunk, &slab) == SLAB_FINE &&
	    chunk_is_start(store, slab, chunk, &i)) {
		__atomic_fetch_and(&slab->bits[slab_nwords(store) + i / 64],
		    ~((uint64_t)1 << (i % 64)), __ATOMIC_RELAXED);
		slab->nraw++;
		nchunks_add_locked(store, &store->nraw, 1);
		slab_changed_locked(store, slab);
	}
	slab_sample_check_locked(store);
	lock_release(&store->lock);
}

enum slab_fault
slab_round_fault(struct slab_store *store, void *p)
{
	struct slab *slab;
	enum slab_fault fault;
	unsigned i = 0;

	fault = slab_find_chunk(store, p, &slab, &i);
	if (fault != SLAB_FINE)
		return fault;
	/* Relaxed: see "Races of slab_round_fault()". */
	if ((load_relaxed(&slab->bits[i / 64]) >> (i % 64) & 1) == 0)
		return SLAB_FINE;
	return i >= load_relaxed(&slab->high) ? SLAB_NEVER : SLAB_FREE;
}
