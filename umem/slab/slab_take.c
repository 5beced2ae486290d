/*
 * slab_take.c - takes chunks from slabs; see slab.c
 *
 * The order is that of slab.c: the fullest slab first, the lowest free chunk
 * first, ready chunks before raw ones.  A batch clears bits and records claims
 * under the lock, and expands the claims to addresses without it ("Claims" in
 * slab.c).
 */
#include "umem/slab/slab_inner.h"

/* The n lowest of bits, which is not 0, or all of them if there are fewer. */
static inline uint64_t
lowest_bits(uint64_t bits, unsigned n)
{
	uint64_t rest = bits, run;

	if (n >= 64)
		return bits;
	/* Most often these bits are adjacent. */
	run = (((uint64_t)1 << n) - 1) << lowbit(bits);
	if ((bits & run) == run)
		return run;
	while (n-- > 0 && rest != 0)
		rest &= rest - 1;
	return bits & ~rest;
}

/*
 * Clears the purged bits up to chunk last.  Because the lowest chunks are taken
 * first, every chunk up to it is in use or about to be written to.
 */
static void
page_purge_touch_locked(
    struct slab_store *store, struct slab *slab, unsigned last)
{
	lock_assert_held(&store->lock);
	umem_assert(last < store->layout.nchunks);

	uintptr_t first = slab_first(store, slab) - slab->span;
	uintptr_t end = first + (last + 1) * store->layout.chunk;

	page_purge_record(store, slab,
	    slab->purged_parts & ~bit_range(first / store->part_bytes,
				     (end - 1) / store->part_bytes));
}

/*
 * Forces the claims to memory at this point, for tools that read the process.
 */
static inline void
claims_to_memory(const struct slab_claims *claims)
{
	__asm__ volatile("" : : "r"(claims) : "memory");
}

/*
 * The free chunks of a word: if raw, those that are not constructed, otherwise
 * those that need no constructor.
 */
static inline uint64_t
slab_free_bits(const struct slab_store *store, const struct slab *slab,
    unsigned w, bool raw)
{
	uint64_t constructed;

	if (!store->constructs)
		return slab->bits[w];
	constructed = load_relaxed(&slab->bits[slab_nwords(store) + w]);
	return slab->bits[w] & (raw ? ~constructed : constructed);
}

/*
 * Claims the lowest n of bits, which are free chunks of a word, or all of them
 * if there are fewer.
 */
static void
claim_take_word_locked(struct slab_store *store, struct slab *slab, unsigned w,
    uint64_t bits, struct slab_claims *claims, unsigned n)
{
	lock_assert_held(&store->lock);
	umem_assert(claims->n < SLAB_CLAIMS && w < slab_nwords(store));
	umem_assert(n != 0 && bits != 0 && (bits & ~slab->bits[w]) == 0);

	struct slab_claim *claim = &claims->claim[claims->n++];
	unsigned last;

	*claim = (struct slab_claim){
	    .slab = slab, .word = w, .mask = lowest_bits(bits, n)};
	claim->n = bit_count(claim->mask);
	claims_to_memory(claims);
	bits_set_locked(slab, w, slab->bits[w] & ~claim->mask);
	slab->nfree -= claim->n;
	claims->nchunks += claim->n;
	last = w * 64 + highbit(claim->mask);
	if (slab->high <= last)
		store_relaxed(&slab->high, last + 1);
	if (unlikely(slab->purged_parts != 0))
		page_purge_touch_locked(store, slab, last);
}

/* Claims chunks of one slab, lowest first, until there are n claimed. */
static void
claims_take_slab_locked(struct slab_store *store, struct slab *slab,
    struct slab_claims *claims, unsigned n)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->bin < SLAB_BINS || slab->bin == SLAB_BIN_EMPTY);

	bool passed = false; /* passed a raw chunk: keep the hint */

	for (unsigned w = slab->hint; slab->nfree > slab->nraw; w++) {
		uint64_t bits;

		if (claims->nchunks == n || claims->n == SLAB_CLAIMS)
			break;
		if (!passed)
			slab->hint = w;
		bits = slab_free_bits(store, slab, w, /* raw */ false);
		if (bits != 0)
			claim_take_word_locked(
			    store, slab, w, bits, claims, n - claims->nchunks);
		passed |= store->constructs && slab->bits[w] != 0;
	}
	slab_rebin_locked(store, slab);
}

/* Claims the lowest raw chunk of a slab that has one. */
static void
claim_take_raw_locked(
    struct slab_store *store, struct slab *slab, struct slab_claims *claims)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->nraw > 0);

	unsigned w = slab->hint;
	uint64_t bits;

	while ((bits = slab_free_bits(store, slab, w, /* raw */ true)) == 0)
		w++;
	if (slab->nfree == slab->nraw)
		slab->hint = w;
	claim_take_word_locked(store, slab, w, bits, claims, 1);
	slab->nraw--;
	nchunks_add_locked(store, &store->nraw, -1);
	slab_rebin_locked(store, slab);
}

/*
 * The first slab of a list that has a raw chunk, or if not raw, one that is
 * ready.
 */
static inline struct slab *
slab_first_with_locked(
    const struct slab_store *store, struct list *list, bool raw)
{
	lock_assert_held(&store->lock);
	list_foreach (slab, list, struct slab, link)
		if (!store->constructs ||
		    (raw ? slab->nraw : slab->nfree - slab->nraw) != 0)
			return slab;
	return NULL;
}

size_t
slab_nready(const struct slab_store *store)
{
	size_t total = slab_total(store);
	size_t retired =
	    (size_t)load_relaxed(&store->nretired) * store->layout.nchunks;
	size_t used = load_relaxed(&store->nused);
	size_t raw = load_relaxed(&store->nraw);

	/*
	 * Because the four are read without the lock, they need not be
	 * consistent.
	 */
	return difference_or_zero(total, used + raw + retired);
}

/* The fullest slab that has a raw chunk, or if not raw, one that is ready. */
static struct slab *
slab_fullest_locked(struct slab_store *store, bool raw)
{
	lock_assert_held(&store->lock);

	struct slab *slab = NULL;

	if (store->constructs && (raw ? store->nraw : slab_nready(store)) == 0)
		return NULL;
	for (unsigned i = 0; i < SLAB_BINS && slab == NULL; i++)
		slab = slab_first_with_locked(store, &store->partial[i], raw);
	return slab != NULL ? slab
			    : slab_first_with_locked(store, &store->empty, raw);
}

/*
 * Claims up to n ready chunks.  If there are none and raw is not NULL, claims
 * one raw chunk and sets *raw.  If created is not NULL, lists that slab first.
 */
static void
claims_take(struct slab_store *store, struct slab *created,
    struct slab_claims *claims, unsigned n, bool *raw)
{
	struct slab *slab;

	claims->n = claims->nchunks = 0;
	slab_lock_counted(store);
	if (created != NULL)
		slab_register_locked(store, created);
	while (claims->nchunks < n && claims->n < SLAB_CLAIMS &&
	       (slab = slab_fullest_locked(store, /* raw */ false)) != NULL)
		claims_take_slab_locked(store, slab, claims, n);
	if (raw != NULL && claims->n == 0 &&
	    (slab = slab_fullest_locked(store, /* raw */ true)) != NULL) {
		claim_take_raw_locked(store, slab, claims);
		*raw = true;
	}
	nchunks_add_locked(store, &store->nused, claims->nchunks);
	slab_sample_check_locked(store);
	lock_release(&store->lock);
}

/*
 * Stores the addresses of these chunks downwards from end.  Most of the bits
 * are adjacent.
 */
static void **
claim_expand(uintptr_t base, size_t chunk, uint64_t bits, void **end)
{
	while (bits != 0) {
		uint64_t behind = bits + (bits & -bits);
		unsigned from = lowbit(bits);
		unsigned to = behind == 0 ? 64 : lowbit(behind);

		for (uintptr_t at = base + from * chunk; from < to; from++) {
			*--end = (void *)at;
			at += chunk;
		}
		bits &= behind;
	}
	return end;
}

/* Stores the addresses of the claimed chunks downwards from end. */
static void
claims_expand(const struct slab_store *store, const struct slab_claims *claims,
    void **end)
{
	for (unsigned i = 0; i < claims->n; i++) {
		const struct slab_claim *claim = &claims->claim[i];
		size_t chunk = store->layout.chunk;
		uintptr_t base = slab_first(store, claim->slab) +
				 (size_t)claim->word * 64 * chunk;

		end = claim_expand(base, chunk, claim->mask, end);
	}
	claims_to_memory(claims);
}

unsigned
slab_take(struct slab_store *store, void **chunks, unsigned n)
{
	struct slab_claims claims;
	struct slab *created = NULL;
	unsigned left = n;

	do {
		claims_take(store, created, &claims, left, NULL);
		claims_expand(store, &claims, chunks + left);
		left -= claims.nchunks;
		created = NULL;
		/* Half of the request is enough to create no new slab. */
		if (!store->constructs && claims.n < SLAB_CLAIMS &&
		    (left == n || left > n - n / 2))
			created = slab_create(store);
	} while (created != NULL || (left != 0 && claims.n == SLAB_CLAIMS));
	if (left != 0)
		for (unsigned i = left; i < n; i++)
			chunks[i - left] = chunks[i];
	return n - left;
}

void *
slab_take_one(struct slab_store *store, bool *raw)
{
	struct slab_claims claims;
	struct slab *created = NULL;
	void *chunk = NULL;

	*raw = false;
	do {
		claims_take(store, created, &claims, 1, raw);
		claims_expand(store, &claims, &chunk + claims.nchunks);
		if (claims.nchunks != 0)
			return chunk;
		created = slab_create(store);
	} while (created != NULL);
	return NULL;
}
