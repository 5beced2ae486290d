/*
 * slab.c - slabs: create, colour, take chunks, give chunks back, destroy
 *
 * A slab is a span from the cache's arena, cut into equal chunks
 * (slab_layout.c).  Its description (struct slab) is apart from the span, so
 * the library neither trusts nor touches the contents of a free chunk: a bit
 * for each chunk says whether it is free.
 *
 * To take is to allocate chunks from slabs; to give is to free chunks to their
 * slabs.
 *
 * Chunks are taken in batches, lowest free chunk first, from the fullest slabs,
 * so that nearly empty slabs drain and can be released.  Partly used slabs are
 * in SLAB_BINS lists by how full they are; a batch changes a slab's list at
 * most once.
 *
 * slab_give() checks each chunk: the address lies in a slab of this store, at
 * the start of a chunk, and the chunk's bit says taken.
 *
 * Claims
 *	Because all CPUs share the lock of a cache's slabs, a word of bits is
 *	written at a time under it, not a chunk.  A claim names a set of chunks
 *	of one word (struct slab_claim).  Claims lie on the stack, and at most
 *	SLAB_CLAIMS are made or used while the lock is held once.
 *
 *	Taking clears bits and records claims; after the lock is released, the
 *	claims are expanded to addresses.  A claimed chunk is taken like any
 *	other: its slab stays, and the members of the slab that are read
 *	meanwhile never change.  A child of fork() does not have the chunks that
 *	another thread had claimed, as it does not have a magazine that was
 *	being filled: they are taken for ever, and their slab stays.
 *
 *	Giving works in the opposite order: the slabs, words and bits of the
 *	chunks are found before the lock is taken.  A chunk that is given back
 *	legitimately belongs to no other thread until its bit is set, so its
 *	slab stays until then.  A double free can race with the slab's
 *	destruction and with the reuse of its memory or description.  Therefore
 *	slab_give() checks three things under the lock: the owner in the page
 *	map, the address of the first chunk, and that all bits say taken.  If
 *	any check fails, it clears the bits that it has set and gives the chunks
 *	one by one, which finds the first bad chunk.
 *
 *	A claim is written to memory before the bits are cleared, and stays
 *	there until its chunks are stored.  So an inspector that stops the
 *	process accounts for every chunk.
 *
 *	The hash over spans is not read without the lock.  Therefore the chunks
 *	of a store that uses it are given one by one.
 *
 * The slab of a chunk is found by the page map for memory of the heap, and
 * by a hash over spans (slab_hash.c) for any other source.
 *
 * Constructed chunks (stores with a destructor function)
 *	The caller constructs a chunk after it has taken it for the first time;
 *	the chunk stays constructed until its slab is destroyed.  A second bit
 *	for each chunk, "made", records this.  The states of a chunk are
 *
 *	free made	state		how it leaves the state
 *	1    0		raw		slab_take_one() takes it
 *	0    0		in hand		slab_constructed(), or slab_give_raw()
 *	0    1		out		slab_give()
 *	1    1		ready		slab_take() or slab_take_one() takes it
 *
 *	A batch has ready chunks only.  A raw chunk is taken alone, for the
 *	allocation that returns it, so no chunk is constructed ahead of need,
 *	and destructors run on no chunk that was never allocated.  Ready chunks
 *	are taken before raw ones, and a new slab is created only when no chunk
 *	is free.  Therefore few slabs have raw chunks, about as many as there
 *	are threads that created a slab at the same time, and the search for a
 *	slab with a ready chunk passes no more than those.
 *
 *	The constructor runs with no lock held and may never return (longjmp,
 *	exception, fork in another thread).  Then its chunk stays in hand: it is
 *	not destructed, and slab_store_end() treats it as free.
 *
 *	Locking: the made bits, and the held bits of slab_owner.c, are the only
 *	parts of a slab that are written without the lock.  slab_constructed()
 *	sets the made bit of a chunk that the caller has in hand.  Because other
 *	bits of the word belong to other threads, each write is an atomic or, or
 *	and.  Relaxed order is enough: the bit of a chunk is read again only
 *	after the chunk was freed, and the program orders its free after its
 *	allocation.
 *
 * Empty slabs
 *	A store keeps one, so that a cache whose use crosses the edge of a slab
 *	repeatedly does not call its arena each time; it releases the others.
 *
 *	A store that constructs keeps all of them until a reap, so that
 *	slab_give() runs no destructor, and objects that overflow the depot are
 *	constructed only once.  slab_reap_unused() destroys as many as were
 *	empty all the time since the last call: the working set of empty slabs
 *	stays, as in a depot.
 *
 *	A type-stable store also keeps all of them, and a reap only requests
 *	their release; see slab_retire.c.
 *
 * Locking
 *	store->lock guards slabs and lists.  Arenas, destructors and the
 *	allocator of descriptions are called without it.  A new slab is complete
 *	before it is listed, and the thread that lists it takes from it first,
 *	before it releases the lock.  An old slab is unlisted before it is
 *	destroyed.  So no thread waits for a page fault or a system call of
 *	another.
 *
 * Invariants (slab_store_check())
 *	nfree of a slab is the number of its free bits.  Full slabs have none,
 *	empty ones nchunks, partly used ones a number between.  A slab is in the
 *	list for its nfree, retired, or isolated.  nused = nslabs *
 *	nchunks - all nfree.  nraw of a slab is the number of its raw chunks,
 *	and nraw of a store is their sum over slabs that are not retired; it is
 *	0 in a store that does not construct.
 *
 * Source: Bonwick, "The Slab Allocator", USENIX 1994, sections 3 and 4.
 */
#include <errno.h>
#include <limits.h>

#include "umem/slab/slab_inner.h"
#include "umem/base/page_map.h"
#include "umem/base/checker.h"
#include "umem/slab/firewall.h"
#include "vmem/heap.h"
#include "vmem/hooks.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

static size_t
slab_desc_bytes(const struct slab_store *store)
{
	return sizeof(struct slab) +
	       slab_nwords(store) *
		   (slab_held_map(store) + (store->records_holders ? 1 : 0)) *
		   sizeof(uint64_t);
}

void
slab_store_init(struct slab_store *store, const struct slab_layout *layout,
    vmem_t *source, unsigned map_class,
    void (*destruct)(struct slab_store *store, void *object))
{
	lock_init(&store->lock, LOCK_SLAB);
	store->layout = *layout;
	store->source = source;
	store->map_class = map_class;
	store->destruct = destruct;
	store->constructs = destruct != NULL;
	store->part_bytes =
	    align_up(layout->slab_bytes / SLAB_PARTS_MOST, os_page_size());
	if (store->part_bytes == 0)
		store->part_bytes = os_page_size();
	for (unsigned i = 0; i < SLAB_BINS; i++)
		list_init(&store->partial[i]);
	list_init(&store->full);
	list_init(&store->empty);
	list_init(&store->retired);
}

static void
nempty_decrement_locked(struct slab_store *store)
{
	store->nempty--;
	if (store->nunused > store->nempty)
		store->nunused = store->nempty;
}

noinline void
slab_rebin_to_locked(struct slab_store *store, struct slab *slab, unsigned bin)
{
	if (slab->bin == SLAB_BIN_ISOLATED)
		return;
	if (slab->bin == SLAB_BIN_EMPTY)
		nempty_decrement_locked(store);
	if (bin == SLAB_BIN_EMPTY)
		store->nempty++;
	list_remove(&slab->link);
	if (unlikely(slab->was_purged))
		list_add_tail(slab_bin_list(store, bin), &slab->link);
	else
		list_add_head(slab_bin_list(store, bin), &slab->link);
	slab->bin = (uint16_t)bin;
}

/*
 * The stores are atomic, because slab_used(), slab_total() and slab_nready()
 * read without the lock.
 */

static void
nslabs_add_locked(struct slab_store *store, int n)
{
	__atomic_store_n(
	    &store->nslabs, store->nslabs + (uint32_t)n, __ATOMIC_RELAXED);
}

static void
nraw_add_locked(struct slab_store *store, long n)
{
	__atomic_store_n(
	    &store->nraw, store->nraw + (size_t)n, __ATOMIC_RELAXED);
}

static void
nused_add_locked(struct slab_store *store, long n)
{
	__atomic_store_n(
	    &store->nused, store->nused + (size_t)n, __ATOMIC_RELAXED);
}

static void *
span_from_source(struct slab_store *store)
{
	size_t bytes = store->layout.slab_bytes;
	bool zeroed;
	void *at;

	if (store->is_quantum)
		return vmem_slab_alloc(store->source, bytes);
	if (store->source != NULL)
		return vmem_xalloc(
		    store->source, bytes, 0, 0, 0, NULL, NULL, VM_NOSLEEP);
	if (store->has_guard_pages)
		return firewall_alloc(&store->layout);
	at = heap_alloc(bytes, HEAP_UNIT, &zeroed);
	if (at == NULL || (page_map_commit(at, bytes) &&
			      (!store->is_unbacked || os_decommit(at, bytes))))
		return at;
	heap_free(at, bytes);
	return NULL;
}

/*
 * Keeps errno, because a failure here is not yet a failure of the caller's
 * request.
 */
static void *
span_alloc(struct slab_store *store)
{
	int saved = errno;
	void *span = span_from_source(store);

	errno = saved;
	return span;
}

static void
span_free(struct slab_store *store, uintptr_t span)
{
	size_t bytes = store->layout.slab_bytes;

	if (store->is_quantum) {
		vmem_slab_free(store->source, (void *)span, bytes);
		return;
	}
	if (store->source != NULL) {
		vmem_xfree(store->source, (void *)span, bytes);
		return;
	}
	page_map_clear((void *)span, bytes);
	if (store->has_guard_pages)
		firewall_free((void *)span, &store->layout);
	else if (!store->is_unbacked || os_commit((void *)span, bytes))
		heap_free((void *)span, bytes);
}

static void
bits_fill(uint64_t *bits, unsigned n)
{
	for (; n >= 64; n -= 64)
		*bits++ = ~(uint64_t)0;
	if (n != 0)
		*bits = ((uint64_t)1 << n) - 1;
}

/*
 * Returns the colour of a new slab.  Two slabs that are created at once may get
 * the same colour; this does no harm.
 */
static size_t
slab_colour_next(struct slab_store *store)
{
	size_t colour;

	/* A fixed colour, of a firewall or of a watched cache. */
	if (unlikely(store->layout.colour_step == 0))
		return store->layout.colour_max;

	colour = __atomic_load_n(&store->colour, __ATOMIC_RELAXED);
	__atomic_store_n(&store->colour,
	    slab_layout_next_colour(&store->layout, colour), __ATOMIC_RELAXED);
	return colour;
}

/* Allocates the description of a slab. */
static struct slab *
desc_alloc(struct slab_store *store)
{
	size_t records = (size_t)store->record_bytes * store->layout.nchunks;
	struct slab *slab = meta_alloc(slab_desc_bytes(store));

	if (slab == NULL || records == 0)
		return slab;
	slab->records = meta_alloc(records);
	if (slab->records != NULL)
		return slab;
	meta_free(slab, slab_desc_bytes(store));
	return NULL;
}

static void
desc_free(struct slab_store *store, struct slab *slab)
{
	if (slab->records != NULL)
		meta_free(slab->records,
		    (size_t)store->record_bytes * store->layout.nchunks);
	meta_free(slab, slab_desc_bytes(store));
}

/* Creates a slab that is in no list and no hash yet. */
static struct slab *
slab_create(struct slab_store *store)
{
	struct slab *slab = slab_hash_ready(store) ? desc_alloc(store) : NULL;
	void *span;

	if (slab == NULL)
		return NULL;
	span = span_alloc(store);
	if (span == NULL) {
		desc_free(store, slab);
		return NULL;
	}
	slab->store = store;
	slab->span = (uintptr_t)span;
	slab->first = slab->span + slab_colour_next(store);
	if (unlikely(store->is_annotated))
		slab->first = ~slab->first;
	slab->nfree = store->layout.nchunks;
	slab->nraw = store->constructs ? slab->nfree : 0;
	slab->bin = SLAB_BIN_EMPTY;
	bits_fill(slab->bits, slab->nfree);
	if (unlikely(store->is_annotated))
		checker_slab_create(span, store->layout.slab_bytes);
	if (store->source == NULL)
		page_map_enter_slab(span, store->layout.slab_bytes,
		    store->map_class, store->layout.chunk,
		    slab_first(store, slab) - slab->span, slab);
	return slab;
}

static void
slab_register_locked(struct slab_store *store, struct slab *slab)
{
	list_add_head(&store->empty, &slab->link);
	store->nempty++;
	nslabs_add_locked(store, 1);
	nraw_add_locked(store, slab->nraw);
	__atomic_store_n(
	    &store->ncreated, store->ncreated + 1, __ATOMIC_RELAXED);
	if (store->source != NULL)
		slab_hash_put_locked(store, slab);
}

void
slab_unlist_empty_locked(struct slab_store *store, struct slab *slab)
{
	umem_assert(slab->bin == SLAB_BIN_EMPTY);
	list_remove(&slab->link);
	nempty_decrement_locked(store);
	nraw_add_locked(store, -(long)slab->nraw);
}

void
slab_unregister_locked(struct slab_store *store, struct slab *slab)
{
	if (slab->purged_parts != 0)
		page_purge_record(store, slab, 0);
	nslabs_add_locked(store, -1);
	if (store->source != NULL)
		slab_hash_remove_locked(store, slab);
}

/* Destructs the constructed chunks of an unlisted slab, and releases it. */
static void
slab_destroy(struct slab_store *store, struct slab *slab)
{
	const uint64_t *made = slab->bits + slab_nwords(store);

	for (unsigned w = 0; store->constructs && w < slab_nwords(store); w++)
		for (uint64_t bits = made[w]; bits != 0; bits &= bits - 1)
			store->destruct(
			    store, (void *)(slab_first(store, slab) +
					    (w * 64 + lowbit(bits)) *
						store->layout.chunk));
	if (unlikely(store->is_annotated))
		checker_slab_destroy(
		    (void *)slab->span, store->layout.slab_bytes);
	span_free(store, slab->span);
	desc_free(store, slab);
}

/* Unlists the empty slabs beyond keep and returns them as a chain. */
static struct slab *
slab_chain_empty_locked(struct slab_store *store, unsigned keep)
{
	struct slab *chain = NULL;

	while (store->nempty > keep) {
		/* The slab that was empty longest. */
		struct slab *slab =
		    container_of(store->empty.prev, struct slab, link);

		slab_unlist_empty_locked(store, slab);
		slab_unregister_locked(store, slab);
		slab->next = chain;
		chain = slab;
	}
	return chain;
}

struct slab *
slab_surplus_locked(struct slab_store *store, unsigned keep)
{
	if (likely(!store->is_type_stable))
		return slab_chain_empty_locked(store, keep);
	if (store->nempty > keep)
		slab_want_retire_locked(store, keep);
	return NULL;
}

void
slab_destroy_all(struct slab_store *store, struct slab *chain)
{
	while (chain != NULL) {
		struct slab *slab = chain;

		chain = slab->next;
		slab_destroy(store, slab);
	}
}

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
	uint64_t made;

	if (!store->constructs)
		return slab->bits[w];
	made = __atomic_load_n(
	    &slab->bits[slab_nwords(store) + w], __ATOMIC_RELAXED);
	return slab->bits[w] & (raw ? ~made : made);
}

/*
 * Writes the word by one atomic store, because slab_round_fault() reads without
 * the lock.
 */
static inline void
bits_set_locked(struct slab *slab, unsigned w, uint64_t bits)
{
	__atomic_store_n(&slab->bits[w], bits, __ATOMIC_RELAXED);
}

/*
 * Claims the lowest n of bits, which are free chunks of a word, or all of them
 * if there are fewer.
 */
static void
claim_take_word_locked(struct slab_store *store, struct slab *slab, unsigned w,
    uint64_t bits, struct slab_claims *claims, unsigned n)
{
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
		__atomic_store_n(&slab->high, last + 1, __ATOMIC_RELAXED);
	if (unlikely(slab->purged_parts != 0))
		page_purge_touch_locked(store, slab, last);
}

/* Claims chunks of one slab, lowest first, until there are n claimed. */
static void
claims_take_slab_locked(struct slab_store *store, struct slab *slab,
    struct slab_claims *claims, unsigned n)
{
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

/* The fullest of the slabs that are partly used, or NULL. */
static struct slab *
slab_partial_locked(struct slab_store *store)
{
	for (unsigned i = 0; i < SLAB_BINS; i++)
		if (!list_empty(&store->partial[i]))
			return list_first(
			    &store->partial[i], struct slab, link);
	return NULL;
}

/* Claims the lowest raw chunk of a slab that has one. */
static void
claim_take_raw_locked(
    struct slab_store *store, struct slab *slab, struct slab_claims *claims)
{
	unsigned w = slab->hint;
	uint64_t bits;

	while ((bits = slab_free_bits(store, slab, w, /* raw */ true)) == 0)
		w++;
	if (slab->nfree == slab->nraw)
		slab->hint = w;
	claim_take_word_locked(store, slab, w, bits, claims, 1);
	slab->nraw--;
	nraw_add_locked(store, -1);
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
	list_foreach (item, list) {
		struct slab *slab = container_of(item, struct slab, link);

		if (!store->constructs ||
		    (raw ? slab->nraw : slab->nfree - slab->nraw) != 0)
			return slab;
	}
	return NULL;
}

/* The fullest slab that has a raw chunk, or if not raw, one that is ready. */
static struct slab *
slab_fullest_locked(struct slab_store *store, bool raw)
{
	struct slab *slab = NULL;

	if (store->constructs && (raw ? store->nraw : slab_nready(store)) == 0)
		return NULL;
	for (unsigned i = 0; i < SLAB_BINS && slab == NULL; i++)
		slab = slab_first_with_locked(store, &store->partial[i], raw);
	return slab != NULL ? slab
			    : slab_first_with_locked(store, &store->empty, raw);
}

/* Takes the lock for a batch, and counts contention. */
static void
slab_lock_counted(struct slab_store *store)
{
	if (unlikely(!lock_try(&store->lock))) {
		/* Relaxed: the count only affects the size of magazines. */
		__atomic_add_fetch(&store->nwaited, 1, __ATOMIC_RELAXED);
		lock_take(&store->lock);
	}
	__atomic_store_n(&store->nvisits, store->nvisits + 1, __ATOMIC_RELAXED);
}

/*
 * Claims up to n ready chunks.  If there are none and raw is not NULL, claims
 * one raw chunk and sets *raw.  If fresh is not NULL, lists that slab first.
 */
static void
claims_take(struct slab_store *store, struct slab *fresh,
    struct slab_claims *claims, unsigned n, bool *raw)
{
	struct slab *slab;

	claims->n = claims->nchunks = 0;
	slab_lock_counted(store);
	if (fresh != NULL)
		slab_register_locked(store, fresh);
	while (claims->nchunks < n && claims->n < SLAB_CLAIMS &&
	       (slab = slab_fullest_locked(store, /* raw */ false)) != NULL)
		claims_take_slab_locked(store, slab, claims, n);
	if (raw != NULL && claims->n == 0 &&
	    (slab = slab_fullest_locked(store, /* raw */ true)) != NULL) {
		claim_take_raw_locked(store, slab, claims);
		*raw = true;
	}
	nused_add_locked(store, claims->nchunks);
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
	struct slab *fresh = NULL;
	unsigned left = n;

	do {
		claims_take(store, fresh, &claims, left, NULL);
		claims_expand(store, &claims, chunks + left);
		left -= claims.nchunks;
		fresh = NULL;
		/* Half of the request is enough to create no new slab. */
		if (!store->constructs && claims.n < SLAB_CLAIMS &&
		    (left == n || left > n - n / 2))
			fresh = slab_create(store);
	} while (fresh != NULL || (left != 0 && claims.n == SLAB_CLAIMS));
	if (left != 0)
		for (unsigned i = left; i < n; i++)
			chunks[i - left] = chunks[i];
	return n - left;
}

void *
slab_take_one(struct slab_store *store, bool *raw)
{
	struct slab_claims claims;
	struct slab *fresh = NULL;
	void *chunk;

	*raw = false;
	do {
		claims_take(store, fresh, &claims, 1, raw);
		claims_expand(store, &claims, &chunk + claims.nchunks);
		if (claims.nchunks != 0)
			return chunk;
		fresh = slab_create(store);
	} while (fresh != NULL);
	return NULL;
}

static struct slab *
slab_of_heap_address(const struct slab_store *store, const void *p)
{
	struct slab *slab = page_map_owner(p);

	if (slab == NULL || page_map_large_bytes(slab) != 0 ||
	    slab->store != store)
		return NULL;
	return slab;
}

static struct slab *
slab_find_locked(struct slab_store *store, void *p)
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
 * A chunk of the slab was given: it is no longer counts as purged, and may change lists.
 */
static void
slab_changed_locked(struct slab_store *store, struct slab *slab)
{
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
	struct slab *slab = *slab_found;
	enum slab_fault fault;
	unsigned i;

	/* Chunks of one batch are often of one slab. */
	if (slab == NULL ||
	    (uintptr_t)p - slab->span >= store->layout.slab_bytes) {
		if (slab != NULL)
			slab_changed_locked(store, slab);
		slab = slab_find_locked(store, p);
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
	nused_add_locked(store, -1);
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
	unsigned most, k = 1;

	step = n < 2 ? 0 : (uintptr_t)chunks[1] - (uintptr_t)chunks[0];
	if (likely(step != chunk && step != -chunk))
		return 0;
	most = i % 64 + 1;
	if (step == chunk) {
		most = 64 - i % 64;
		if (most > store->layout.nchunks - i)
			most = (unsigned)store->layout.nchunks - i;
	}
	if (most > n)
		most = n;
	while (
	    k < most && (uintptr_t)chunks[k] - (uintptr_t)chunks[k - 1] == step)
		k++;
	i = step == chunk ? i % 64 : i % 64 + 1 - k;
	*bits = bit_range(i, i + k - 1);
	return k > 1 && (*bits & mask) == 0 ? k - 1 : 0;
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
	struct slab *was = NULL;
	unsigned done, i, more, word = 0, count = 0;
	uint64_t mask = 0, bits;

	claims->n = 0;
	for (done = 0; done < n; done++) {
		struct slab *slab = slab_of_heap_address(store, chunks[done]);
		uint64_t bit;

		if (slab == NULL ||
		    !chunk_is_start(store, slab, chunks[done], &i))
			break;
		bit = (uint64_t)1 << (i % 64);
		if (slab != was || i / 64 != word) {
			if (claims->n == SLAB_CLAIMS)
				break;
			claim = &claims->claim[claims->n++];
			claim->slab = was = slab;
			claim->first = slab_first(store, slab);
			claim->word = word = i / 64;
			mask = 0;
			count = 0;
			__builtin_prefetch(&slab->bits[word], 1);
		} else if ((mask & bit) != 0) {
			break;
		}
		more = claim_run_length(
		    store, chunks + done, n - done, i, mask, &bits);
		mask |= more != 0 ? bits : bit;
		done += more;
		claim->mask = mask;
		claim->n = count += 1 + more;
	}
	return done;
}

/* Is the slab that claims_make() found still the owner of the claim's chunks? */
static bool
claim_holds_locked(
    const struct slab_store *store, const struct slab_claim *claim)
{
	return slab_of_heap_address(store, (void *)claim->first) ==
		   claim->slab &&
	       slab_first(store, claim->slab) == claim->first;
}

static inline void
claim_give_locked(struct slab_store *store, const struct slab_claim *claim)
{
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
		nused_add_locked(store, -(long)n);
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

	while (n > 0 && fault == SLAB_FINE) {
		unsigned done = 0;

		if (store->source == NULL)
			done = claims_make(store, chunks, n, &claims);
		slab_lock_counted(store);
		if (done == 0 || !claims_give_locked(store, &claims, done)) {
			done = done == 0 ? n : done;
			fault = chunks_give_locked(store, chunks, done, bad);
		}
		surplus = slab_surplus_locked(store, slab_empty_kept(store));
		lock_release(&store->lock);
		slab_destroy_all(store, surplus);
		chunks += done;
		n -= done;
	}
	return fault;
}

/* Returns the word of a chunk's "made" bit, and sets *bit to the bit. */
static uint64_t *
constructed_word(const struct slab_store *store, struct slab *slab,
    const void *chunk, uint64_t *bit)
{
	unsigned i = (unsigned)slab_layout_index(
	    &store->layout, (uintptr_t)chunk - slab_first(store, slab));

	*bit = (uint64_t)1 << (i % 64);
	return &slab->bits[slab_nwords(store) + i / 64];
}

void
slab_constructed(struct slab_store *store, void *chunk)
{
	struct slab *slab;
	uint64_t bit, *word;

	/* The chunk is taken, so its slab stays, but the hash may change. */
	if (store->source != NULL)
		lock_take(&store->lock);
	slab = slab_find_locked(store, chunk);
	if (store->source != NULL)
		lock_release(&store->lock);
	word = constructed_word(store, slab, chunk, &bit);
	__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

void
slab_give_raw(struct slab_store *store, void *chunk)
{
	struct slab *slab = NULL;
	uint64_t bit, *word;

	lock_take(&store->lock);
	if (chunk_give_locked(store, chunk, &slab) == SLAB_FINE) {
		word = constructed_word(store, slab, chunk, &bit);
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
		slab->nraw++;
		nraw_add_locked(store, 1);
		slab_changed_locked(store, slab);
	}
	lock_release(&store->lock);
}

enum slab_fault
slab_free_fault(struct slab_store *store, void *p)
{
	enum slab_fault fault = SLAB_FOREIGN;
	struct slab *slab;
	unsigned i;

	lock_take(&store->lock);
	slab = slab_find_locked(store, p);
	if (slab != NULL)
		fault = chunk_free_fault(store, slab, p, &i);
	lock_release(&store->lock);
	return fault;
}

enum slab_fault
slab_find_chunk(
    struct slab_store *store, void *p, struct slab **slab, unsigned *i)
{
	/* The page map is read without a lock. */
	if (store->source != NULL)
		lock_take(&store->lock);
	*slab = slab_find_locked(store, p);
	if (store->source != NULL)
		lock_release(&store->lock);
	if (*slab == NULL)
		return SLAB_FOREIGN;
	return chunk_is_start(store, *slab, p, i) ? SLAB_FINE : SLAB_INTERIOR;
}

/*
 * Destroys the slabs of the chain.  Of a stable store, has slabs retired if
 * that was requested.
 */
static void
slab_surplus_end(struct slab_store *store, struct slab *surplus)
{
	slab_destroy_all(store, surplus);
	if (unlikely(store->is_type_stable) &&
	    slab_retire_wanted(store) != UINT_MAX)
		store->want_retire(store);
}

void
slab_reap(struct slab_store *store, unsigned keep)
{
	struct slab *surplus;

	lock_take(&store->lock);
	surplus = slab_surplus_locked(store, keep);
	lock_release(&store->lock);
	slab_surplus_end(store, surplus);
}

/* Removes a slab after its source has taken over its chunks. */
static void
slab_give_up_locked(struct slab_store *store, struct slab *slab)
{
	list_remove(&slab->link);
	nslabs_add_locked(store, -1);
	nused_add_locked(store, -(long)(store->layout.nchunks - slab->nfree));
	slab_hash_remove_locked(store, slab);
}

void
slab_dissolve(struct slab_store *store)
{
	struct slab *slab;

	for (;;) {
		lock_take(&store->lock);
		slab = slab_partial_locked(store);
		/* No other thread changes the bits: the gate is closed. */
		if (slab != NULL &&
		    vmem_slab_split(store->source, (void *)slab->span,
			store->layout.chunk, slab->bits))
			slab_give_up_locked(store, slab);
		else
			slab = NULL;
		lock_release(&store->lock);
		if (slab == NULL)
			return;
		desc_free(store, slab);
	}
}

bool
slab_reap_unused(struct slab_store *store)
{
	struct slab *surplus;
	bool left;

	lock_take(&store->lock);
	surplus = slab_surplus_locked(store, store->nempty - store->nunused);
	store->nunused = store->nempty;
	/* If all empty slabs are to be retired, a later call finds no more. */
	left = store->nempty != 0 && slab_retire_wanted(store) != 0;
	lock_release(&store->lock);
	slab_surplus_end(store, surplus);
	return left;
}

/* Destructs the ready chunks of slabs that have chunks out. */
static void
slab_destruct_ready(struct slab_store *store)
{
	void *chunk;

	while (slab_take(store, &chunk, 1) == 1) {
		store->destruct(store, chunk);
		slab_give_raw(store, chunk);
	}
}

/* Frees the chunks in hand of a slab: their constructors will not return. */
static void
slab_free_in_hand_locked(struct slab_store *store, struct slab *slab)
{
	unsigned nchunks = store->layout.nchunks;

	for (unsigned i = 0; i < nchunks; i++) {
		uint64_t bit = (uint64_t)1 << (i % 64);
		uint64_t *word = &slab->bits[i / 64];

		if (((*word | word[slab_nwords(store)]) & bit) != 0)
			continue;
		*word |= bit;
		slab->nfree++;
		slab->nraw++;
		slab->hint = 0;
		nraw_add_locked(store, 1);
		nused_add_locked(store, -1);
	}
	slab_rebin_locked(store, slab);
}

static void
slab_free_in_hand(struct slab_store *store)
{
	lock_take(&store->lock);
	for (unsigned bin = 0; bin <= SLAB_BIN_FULL; bin++)
		list_foreach_safe (item, slab_bin_list(store, bin))
			slab_free_in_hand_locked(
			    store, container_of(item, struct slab, link));
	lock_release(&store->lock);
}

/*
 * Destroys the empty slabs.  No reader is left, so those of a stable store need
 * not wait for a grace period.
 */
static void
slab_destroy_empty(struct slab_store *store)
{
	struct slab *empty;

	lock_take(&store->lock);
	empty = slab_chain_empty_locked(store, 0);
	lock_release(&store->lock);
	slab_destroy_all(store, empty);
}

bool
slab_store_end(struct slab_store *store)
{
	page_purge_recover(store);
	slab_end_retired(store, store->last_batch);
	slab_destroy_empty(store);
	if (store->nslabs != 0 && store->constructs) {
		slab_destruct_ready(store);
		slab_free_in_hand(store);
		slab_destroy_empty(store);
	}
	if (store->nslabs != 0)
		return false;
	if (store->hash != NULL)
		meta_free(
		    store->hash, store->hash_size * sizeof(store->hash[0]));
	store->hash = NULL;
	store->hash_size = 0;
	return true;
}

size_t
slab_nready(const struct slab_store *store)
{
	size_t total =
	    (size_t)__atomic_load_n(&store->nslabs, __ATOMIC_RELAXED) *
	    store->layout.nchunks;
	size_t retired =
	    (size_t)__atomic_load_n(&store->nretired, __ATOMIC_RELAXED) *
	    store->layout.nchunks;
	size_t used = __atomic_load_n(&store->nused, __ATOMIC_RELAXED);
	size_t raw = __atomic_load_n(&store->nraw, __ATOMIC_RELAXED);

	/*
	 * Because the four are read without the lock, they need not be
	 * consistent.
	 */
	used += raw + retired;
	return total > used ? total - used : 0;
}

size_t
slab_used(struct slab_store *store)
{
	return __atomic_load_n(&store->nused, __ATOMIC_RELAXED);
}

size_t
slab_total(struct slab_store *store)
{
	return (size_t)__atomic_load_n(&store->nslabs, __ATOMIC_RELAXED) *
	       store->layout.nchunks;
}
