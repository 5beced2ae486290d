/*
 * slab.c - create, carve, colour, take, put, destroy
 *
 * A slab is a span from the cache's arena, cut into equal chunks
 * (slab_layout.c).  Its description lies apart, so that nothing in a free
 * chunk is trusted or touched: a bit for each chunk says whether it is free.
 *
 * Taking is in batches, lowest free chunk first, from the fullest slabs:
 * those that are nearly empty drain and can go back.  Slabs that are partly
 * used hang in SLAB_BINS lists by how full they are; a batch changes a slab's
 * list at most once.
 *
 * Giving back checks what it is given: the address lies in a slab of this
 * store, at the start of a chunk, and the chunk's bit says taken.
 *
 * Claims
 *	All CPUs share the lock of a cache's slabs, so under it a word of bits
 *	is written at a time, not a chunk.  A claim says which chunks of one
 *	word are meant (struct slab_claim); claims lie on the stack, and no more
 *	than SLAB_CLAIMS are made or used while the lock is held once.
 *	Taking clears bits and notes claims; when the lock is released, they
 *	become addresses.  A claimed chunk is taken like any other: its slab
 *	stays, and what is read of the slab never changes.  A child of fork()
 *	does not have what another thread had claimed, as it does not have a
 *	magazine that was being filled: taken for ever, and its slab stays.
 *	Giving does it the other way round: slabs, words and bits of chunks
 *	are found before the lock is taken.  A chunk that is given back by right
 *	is nobody else's until its bit is set, so its slab stays till then.  Who
 *	frees twice may do so while the slab goes, and another comes to lie
 *	where it or its description was.  So what the map says, where the first
 *	chunk is and that all bits say taken is looked at under the lock; if
 *	anything is wrong, the bits are cleared again and the chunks are given
 *	one by one, which finds the first that is to blame.
 *	A claim is in memory before the bits are cleared, until its chunks are
 *	where they go: one who stops the process finds every chunk.
 *	The hash over spans is not read without the lock: what lies in it is
 *	given one by one.
 *
 * Finding the slab of a chunk: by the address map for memory of the heap, by
 * a hash over spans for any other source, whose integers need not even be
 * addresses.  A span there is at most slab_bytes long and starts anywhere, so
 * a chunk's slab has its span in the same or the previous slab_bytes window.
 *
 * Constructed chunks
 *	A chunk is constructed when it is taken for the first time and stays
 *	so until its slab goes; a second bit for each chunk remembers it.
 *
 * Empty slabs: one is kept, so that a cache that goes to and fro over the
 * edge of a slab does not call its arena each time; the others go back.
 *
 * Sweeping
 *	The pages of a sparsely used slab in which every chunk is free can go
 *	to the kernel: no other cache can use them.  A slab has 64 parts at
 *	most, each a page or some; slab->purged says which have no memory.  A
 *	chunk that is taken brings them back, by a fault.  Chunks that are
 *	constructed stay.  A slab that was swept goes to the tail of its list,
 *	so that it is the last to be taken from, and a sweep ends at the first
 *	that it has seen before.
 *
 * Locking
 *	store->lock guards slabs and lists.  Arenas, destructors and memory for
 *	descriptions are called for without it: a new slab is finished before
 *	it is listed, by the hold that takes from it first; an old one is
 *	unlisted before it is ended.  A sweep puts a slab aside before it calls
 *	the kernel: what is free there stays free, whatever is given back
 *	meanwhile.  So nobody waits for another's page fault or system call.
 *	There is one sweep at a time (update.c), so a slab that is aside when
 *	one begins was put there before a fork, by a thread that is not here.
 *
 * Always true (slab_store_check()): nfree of a slab is the number of its free
 * bits; full slabs have none, empty ones nchunks, partial ones between; a slab
 * is in the list for its nfree, or aside;
 * nused = nslabs * nchunks - all nfree.
 *
 * Source: Bonwick, "The Slab Allocator", USENIX 1994, sections 3 and 4.
 */
#include "umem/slab.h"
#include "umem/addr_map.h"
#include "umem/checker.h"
#include "umem/firewall.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

#define EMPTY_KEPT 1
#define PARTS_MOST 64
#define HASH_FIRST 16
#define BIN_FULL   SLAB_BINS
#define BIN_EMPTY  (SLAB_BINS + 1)
#define BIN_ASIDE  (SLAB_BINS + 2)
/* Lists of slabs that are half empty or more. */
#define BIN_SPARSE (SLAB_BINS / 2)

static size_t swept_bytes; /* [a] of all stores */

static unsigned
nwords(const struct slab_store *store)
{
	return (store->layout.nchunks + 63) / 64;
}

/*
 * Where the first chunk is.  Of watched slabs that is written the other way
 * round, or memcheck would take it for somebody's pointer to that object.
 */
static inline uintptr_t
first_of(const struct slab_store *store, const struct slab *slab)
{
	return unlikely(store->watched) ? ~slab->first : slab->first;
}

static size_t
slab_desc_bytes(const struct slab_store *store)
{
	return sizeof(struct slab) +
	       nwords(store) * (store->constructs ? 2 : 1) * sizeof(uint64_t);
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
	    align_up(layout->slab_bytes / PARTS_MOST, os_page_size());
	if (store->part_bytes == 0)
		store->part_bytes = os_page_size();
	for (unsigned i = 0; i < SLAB_BINS; i++)
		list_init(&store->partial[i]);
	list_init(&store->full);
	list_init(&store->empty);
}

/* The hash over spans, for sources that the address map does not cover. */

static struct slab **
hash_chain_locked(struct slab_store *store, uintptr_t window)
{
	uint64_t mixed = window * 0x9e3779b97f4a7c15;

	return &store->hash[(mixed >> 32) & (store->hash_size - 1)];
}

static uintptr_t
window_of(const struct slab_store *store, uintptr_t at)
{
	return at / store->layout.slab_bytes;
}

static void
hash_put_locked(struct slab_store *store, struct slab *slab)
{
	struct slab **chain =
	    hash_chain_locked(store, window_of(store, slab->span));

	slab->next = *chain;
	*chain = slab;
}

static void
hash_remove_locked(struct slab_store *store, struct slab *slab)
{
	struct slab **at =
	    hash_chain_locked(store, window_of(store, slab->span));

	while (*at != slab)
		at = &(*at)->next;
	*at = slab->next;
}

static struct slab *
hash_find_locked(struct slab_store *store, uintptr_t p)
{
	uintptr_t window = window_of(store, p);

	if (store->hash == NULL)
		return NULL;
	for (uintptr_t w = window;; w--) {
		for (struct slab *s = *hash_chain_locked(store, w); s != NULL;
		     s = s->next)
			if (p - s->span < store->layout.slab_bytes)
				return s;
		if (w == 0 || w != window)
			return NULL;
	}
}

/* The old chains, or those that came too late. */
static struct slab **
hash_replace_locked(
    struct slab_store *store, struct slab **chains, uint32_t size)
{
	uint32_t oldsize = store->hash_size;
	struct slab **old = store->hash;

	if (size <= oldsize)
		return chains;
	store->hash = chains;
	__atomic_store_n(&store->hash_size, size, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < oldsize; i++)
		while (old[i] != NULL) {
			struct slab *slab = old[i];

			old[i] = slab->next;
			hash_put_locked(store, slab);
		}
	return old;
}

/* Twice as many chains; if there is no memory, the chains get longer. */
static bool
hash_grow(struct slab_store *store, uint32_t oldsize)
{
	uint32_t size = oldsize == 0 ? HASH_FIRST : 2 * oldsize;
	struct slab **chains = meta_alloc(size * sizeof(chains[0]));
	struct slab **old;

	if (chains == NULL)
		return oldsize != 0;
	lock_take(&store->lock);
	old = hash_replace_locked(store, chains, size);
	lock_release(&store->lock);
	if (old == chains)
		meta_free(old, size * sizeof(old[0]));
	else if (old != NULL)
		meta_free(old, oldsize * sizeof(old[0]));
	return true;
}

/* Chains for one more slab. */
static bool
hash_ready(struct slab_store *store)
{
	uint32_t size = __atomic_load_n(&store->hash_size, __ATOMIC_RELAXED);

	if (store->source == NULL ||
	    (size != 0 &&
		__atomic_load_n(&store->nslabs, __ATOMIC_RELAXED) <= 2 * size))
		return true;
	return hash_grow(store, size);
}

static unsigned
bin_of(const struct slab_store *store, const struct slab *slab)
{
	unsigned bin = 0;

	if (slab->nfree == 0)
		return BIN_FULL;
	if (slab->nfree == store->layout.nchunks)
		return BIN_EMPTY;
	for (unsigned i = 1; i < SLAB_BINS; i++)
		bin += (uint64_t)slab->nfree * SLAB_BINS >=
		       i * (store->layout.nchunks + 1ull);
	return bin;
}

static struct list *
bin_list(struct slab_store *store, unsigned bin)
{
	if (bin == BIN_FULL)
		return &store->full;
	if (bin == BIN_EMPTY)
		return &store->empty;
	return &store->partial[bin];
}

static noinline void
rebin_to_locked(struct slab_store *store, struct slab *slab, unsigned bin)
{
	if (slab->bin == BIN_ASIDE)
		return;
	if (slab->bin == BIN_EMPTY)
		store->nempty--;
	if (bin == BIN_EMPTY)
		store->nempty++;
	list_remove(&slab->link);
	if (unlikely(slab->swept))
		list_add_tail(bin_list(store, bin), &slab->link);
	else
		list_add_head(bin_list(store, bin), &slab->link);
	slab->bin = (uint16_t)bin;
}

/* After nfree changed. */
static inline void
rebin_locked(struct slab_store *store, struct slab *slab)
{
	unsigned bin = bin_of(store, slab);

	if (bin != slab->bin)
		rebin_to_locked(store, slab, bin);
}

/* Atomic, since slab_used() and slab_total() read without the lock. */

static void
nslabs_add_locked(struct slab_store *store, int n)
{
	__atomic_store_n(
	    &store->nslabs, store->nslabs + (uint32_t)n, __ATOMIC_RELAXED);
}

static void
nused_add_locked(struct slab_store *store, long n)
{
	__atomic_store_n(
	    &store->nused, store->nused + (size_t)n, __ATOMIC_RELAXED);
}

static void *
span_alloc(struct slab_store *store)
{
	size_t bytes = store->layout.slab_bytes;
	bool zeroed;
	void *at;

	if (store->source != NULL)
		return vmem_xalloc(
		    store->source, bytes, 0, 0, 0, NULL, NULL, VM_NOSLEEP);
	if (store->guarded)
		return firewall_alloc(&store->layout);
	at = heap_alloc(bytes, HEAP_UNIT, &zeroed);
	if (at == NULL || addr_map_cover(at, bytes))
		return at;
	heap_free(at, bytes);
	return NULL;
}

static void
span_free(struct slab_store *store, uintptr_t span)
{
	size_t bytes = store->layout.slab_bytes;

	if (store->source != NULL) {
		vmem_xfree(store->source, (void *)span, bytes);
		return;
	}
	addr_map_clear((void *)span, bytes);
	if (store->guarded)
		firewall_free((void *)span, &store->layout);
	else
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

/* Two slabs that are made at once may get the same: that is no harm. */
static size_t
colour_take(struct slab_store *store)
{
	size_t colour;

	/* One that is fixed: of a firewall, or of a watched cache. */
	if (unlikely(store->layout.colour_step == 0))
		return store->layout.colour_max;

	colour = __atomic_load_n(&store->colour, __ATOMIC_RELAXED);
	__atomic_store_n(&store->colour,
	    slab_layout_next_colour(&store->layout, colour), __ATOMIC_RELAXED);
	return colour;
}

/* A description without a slab. */
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

/* A slab that nobody knows yet. */
static struct slab *
slab_create(struct slab_store *store)
{
	struct slab *slab = hash_ready(store) ? desc_alloc(store) : NULL;
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
	slab->first = slab->span + colour_take(store);
	if (unlikely(store->watched))
		slab->first = ~slab->first;
	slab->nfree = store->layout.nchunks;
	slab->bin = BIN_EMPTY;
	bits_fill(slab->bits, slab->nfree);
	if (unlikely(store->watched))
		checker_slab(span, store->layout.slab_bytes);
	if (store->source == NULL)
		addr_map_slab(span, store->layout.slab_bytes, store->map_class,
		    store->layout.chunk, first_of(store, slab) - slab->span,
		    slab);
	return slab;
}

static void
slab_list_locked(struct slab_store *store, struct slab *slab)
{
	list_add_head(&store->empty, &slab->link);
	store->nempty++;
	nslabs_add_locked(store, 1);
	__atomic_store_n(
	    &store->ncreated, store->ncreated + 1, __ATOMIC_RELAXED);
	if (store->source != NULL)
		hash_put_locked(store, slab);
}

/* Parts that have no memory, from now on. */
static void
purged_set(struct slab_store *store, struct slab *slab, uint64_t parts)
{
	long now = __builtin_popcountll(parts);
	long was = __builtin_popcountll(slab->purged);

	slab->purged = parts;
	__atomic_add_fetch(&swept_bytes,
	    (size_t)(now - was) * store->part_bytes, __ATOMIC_RELAXED);
}

static void
slab_unlist_locked(struct slab_store *store, struct slab *slab)
{
	umem_assert(slab->bin == BIN_EMPTY);
	if (slab->purged != 0)
		purged_set(store, slab, 0);
	list_remove(&slab->link);
	store->nempty--;
	nslabs_add_locked(store, -1);
	if (store->source != NULL)
		hash_remove_locked(store, slab);
}

/* Give an unlisted slab back; destructors first. */
static void
slab_destroy(struct slab_store *store, struct slab *slab)
{
	const uint64_t *made = slab->bits + nwords(store);

	for (unsigned w = 0; store->constructs && w < nwords(store); w++)
		for (uint64_t bits = made[w]; bits != 0; bits &= bits - 1)
			store->destruct(
			    store, (void *)(first_of(store, slab) +
					    (w * 64 + lowbit(bits)) *
						store->layout.chunk));
	if (unlikely(store->watched))
		checker_slab_end((void *)slab->span, store->layout.slab_bytes);
	span_free(store, slab->span);
	desc_free(store, slab);
}

static void
slabs_destroy(struct slab_store *store, struct slab *chain)
{
	while (chain != NULL) {
		struct slab *slab = chain;

		chain = slab->next;
		slab_destroy(store, slab);
	}
}

/* Empty slabs beyond keep, as a chain. */
static struct slab *
surplus_locked(struct slab_store *store, unsigned keep)
{
	struct slab *chain = NULL;

	while (store->nempty > keep) {
		/* The one that was empty longest. */
		struct slab *slab =
		    container_of(store->empty.prev, struct slab, link);

		slab_unlist_locked(store, slab);
		slab->next = chain;
		chain = slab;
	}
	return chain;
}

/* Bits from to to, both included. */
static uint64_t
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

/* The n lowest of more bits than none; all, if there are fewer. */
static inline uint64_t
lowest_bits(uint64_t bits, unsigned n)
{
	uint64_t rest = bits, run;

	if (n >= 64)
		return bits;
	/* Most often they lie side by side. */
	run = (((uint64_t)1 << n) - 1) << lowbit(bits);
	if ((bits & run) == run)
		return run;
	while (n-- > 0 && rest != 0)
		rest &= rest - 1;
	return bits & ~rest;
}

/*
 * Every chunk up to this is in use, or about to be written to: the lowest are
 * taken first.
 */
static void
touch_locked(struct slab_store *store, struct slab *slab, unsigned last)
{
	uintptr_t first = first_of(store, slab) - slab->span;
	uintptr_t end = first + (last + 1) * store->layout.chunk;

	purged_set(store, slab,
	    slab->purged & ~bit_range(first / store->part_bytes,
			       (end - 1) / store->part_bytes));
}

/* What was claimed is in memory from here on, for who reads from outside. */
static inline void
publish(const struct slab_claims *claims)
{
	__asm__ volatile("" : : "r"(claims) : "memory");
}

/* Up to n free chunks of a word, the lowest. */
static void
claim_word_locked(struct slab_store *store, struct slab *slab, unsigned w,
    struct slab_claims *claims, unsigned n)
{
	struct slab_claim *claim = &claims->claim[claims->n++];
	uint64_t *made = slab->bits + nwords(store) + w;
	unsigned last;

	*claim = (struct slab_claim){
	    .slab = slab, .word = w, .mask = lowest_bits(slab->bits[w], n)};
	claim->n = bit_count(claim->mask);
	if (store->constructs) {
		claim->raw = claim->mask & ~*made;
		*made |= claim->mask;
	}
	publish(claims);
	slab->bits[w] &= ~claim->mask;
	slab->nfree -= claim->n;
	claims->nchunks += claim->n;
	last = w * 64 + highbit(claim->mask);
	if (slab->high <= last)
		slab->high = last + 1;
	if (unlikely(slab->purged != 0))
		touch_locked(store, slab, last);
}

/* Claims chunks of one slab, lowest first, until there are n. */
static void
claim_locked(struct slab_store *store, struct slab *slab,
    struct slab_claims *claims, unsigned n)
{
	for (unsigned w = slab->hint; slab->nfree > 0; w++) {
		if (claims->nchunks == n || claims->n == SLAB_CLAIMS)
			break;
		slab->hint = w;
		if (slab->bits[w] != 0)
			claim_word_locked(
			    store, slab, w, claims, n - claims->nchunks);
	}
	rebin_locked(store, slab);
}

static struct slab *
fullest_locked(struct slab_store *store)
{
	for (unsigned i = 0; i < SLAB_BINS; i++)
		if (!list_empty(&store->partial[i]))
			return list_first(
			    &store->partial[i], struct slab, link);
	if (!list_empty(&store->empty))
		return list_first(&store->empty, struct slab, link);
	return NULL;
}

/* Takes the lock for a batch. */
static void
visit_lock(struct slab_store *store)
{
	if (unlikely(!lock_try(&store->lock))) {
		/* Relaxed: it only steers the size of magazines. */
		__atomic_add_fetch(&store->nwaited, 1, __ATOMIC_RELAXED);
		lock_take(&store->lock);
	}
	__atomic_store_n(&store->nvisits, store->nvisits + 1, __ATOMIC_RELAXED);
}

/* Claims up to n chunks; fresh, if not NULL, is a slab to be listed. */
static void
take_claims(struct slab_store *store, struct slab *fresh,
    struct slab_claims *claims, unsigned n)
{
	struct slab *slab;

	claims->n = claims->nchunks = 0;
	visit_lock(store);
	if (fresh != NULL)
		slab_list_locked(store, fresh);
	while (claims->nchunks < n && claims->n < SLAB_CLAIMS &&
	       (slab = fullest_locked(store)) != NULL)
		claim_locked(store, slab, claims, n);
	nused_add_locked(store, claims->nchunks);
	lock_release(&store->lock);
}

/* The chunks of these bits, downwards from end: most lie side by side. */
static void **
expand_word(uintptr_t base, size_t chunk, uint64_t bits, void **end)
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

/* The same, saying which are raw. */
static void **
expand_raw(
    uintptr_t base, size_t chunk, const struct slab_claim *claim, void **end)
{
	for (uint64_t bits = claim->mask; bits != 0; bits &= bits - 1) {
		unsigned bit = lowbit(bits);

		*--end =
		    (void *)((base + bit * chunk) | (claim->raw >> bit & 1));
	}
	return end;
}

/* The claimed chunks, downwards from end. */
static void
expand(const struct slab_store *store, const struct slab_claims *claims,
    void **end)
{
	for (unsigned i = 0; i < claims->n; i++) {
		const struct slab_claim *claim = &claims->claim[i];
		size_t chunk = store->layout.chunk;
		uintptr_t base = first_of(store, claim->slab) +
				 (size_t)claim->word * 64 * chunk;

		end = claim->raw == 0
			  ? expand_word(base, chunk, claim->mask, end)
			  : expand_raw(base, chunk, claim, end);
	}
	publish(claims);
}

unsigned
slab_take(struct slab_store *store, void **chunks, unsigned n)
{
	struct slab_claims claims;
	struct slab *fresh = NULL;
	unsigned left = n;

	do {
		take_claims(store, fresh, &claims, left);
		expand(store, &claims, chunks + left);
		left -= claims.nchunks;
		fresh = NULL;
		/* Half of what was asked for is enough to come back later. */
		if (claims.n < SLAB_CLAIMS && (left == n || left > n - n / 2))
			fresh = slab_create(store);
	} while (fresh != NULL || (left != 0 && claims.n == SLAB_CLAIMS));
	if (left != 0)
		for (unsigned i = left; i < n; i++)
			chunks[i - left] = chunks[i];
	return n - left;
}

static struct slab *
slab_of_map(const struct slab_store *store, const void *p)
{
	struct slab *slab = addr_map_owner(p);

	if (slab == NULL || addr_map_large_bytes(slab) != 0 ||
	    slab->store != store)
		return NULL;
	return slab;
}

static struct slab *
slab_find_locked(struct slab_store *store, void *p)
{
	if (store->source != NULL)
		return hash_find_locked(store, (uintptr_t)p);
	return slab_of_map(store, p);
}

/* Is p where a chunk starts?  Then its number. */
static inline bool
is_start(const struct slab_store *store, const struct slab *slab, void *p,
    unsigned *i)
{
	uintptr_t first = first_of(store, slab);
	uintptr_t offset = (uintptr_t)p - first;

	if (unlikely((uintptr_t)p < first)) {
		*i = UINT32_MAX;
		return false;
	}
	*i = (unsigned)slab_layout_index(&store->layout, offset);
	return offset == *i * store->layout.chunk && *i < store->layout.nchunks;
}

static enum slab_fault
chunk_index(const struct slab_store *store, const struct slab *slab, void *p,
    unsigned *i)
{
	if (unlikely(!is_start(store, slab, p, i)))
		return SLAB_INTERIOR;
	if (slab->bits[*i / 64] >> (*i % 64) & 1)
		return *i >= slab->high ? SLAB_NEVER : SLAB_FREE;
	return SLAB_FINE;
}

/* Something of the slab was freed. */
static void
given_locked(struct slab_store *store, struct slab *slab)
{
	if (unlikely(slab->swept)) {
		slab->swept = 0;
		if (slab->bin != BIN_ASIDE) {
			list_remove(&slab->link);
			list_add_head(bin_list(store, slab->bin), &slab->link);
		}
	}
	rebin_locked(store, slab);
}

static enum slab_fault
give_locked(struct slab_store *store, void *p, struct slab **slab_found)
{
	struct slab *slab = *slab_found;
	enum slab_fault fault;
	unsigned i;

	/* Chunks of one batch often come from one slab. */
	if (slab == NULL ||
	    (uintptr_t)p - slab->span >= store->layout.slab_bytes) {
		if (slab != NULL)
			given_locked(store, slab);
		slab = slab_find_locked(store, p);
		*slab_found = slab;
		if (slab == NULL)
			return SLAB_FOREIGN;
	}
	fault = chunk_index(store, slab, p, &i);
	if (fault != SLAB_FINE)
		return fault;
	slab->bits[i / 64] |= (uint64_t)1 << (i % 64);
	slab->nfree++;
	nused_add_locked(store, -1);
	if (slab->hint > i / 64)
		slab->hint = i / 64;
	return SLAB_FINE;
}

/* One by one: what the claims cannot do, and who is to blame. */
static enum slab_fault
give_each_locked(
    struct slab_store *store, void **chunks, unsigned n, void **bad)
{
	enum slab_fault fault = SLAB_FINE;
	struct slab *slab = NULL;

	for (unsigned i = 0; i < n && fault == SLAB_FINE; i++) {
		fault = give_locked(store, chunks[i], &slab);
		*bad = chunks[i];
	}
	if (slab != NULL)
		given_locked(store, slab);
	return fault;
}

/*
 * The first of n chunks is number i of its slab.  How many of those behind it
 * go on from there one by one, up or down, without leaving the word, or
 * bringing a bit that is in mask?  *bits are those of all of them.
 */
static inline unsigned
run_of_neighbours(const struct slab_store *store, void **chunks, unsigned n,
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
 * Claims for the first of n chunks, until there is no room or one is odd; how
 * many.
 */
static unsigned
gather(const struct slab_store *store, void **chunks, unsigned n,
    struct slab_claims *claims)
{
	struct slab_claim *claim = NULL;
	struct slab *was = NULL;
	unsigned done, i, more, word = 0, count = 0;
	uint64_t mask = 0, bits;

	claims->n = 0;
	for (done = 0; done < n; done++) {
		struct slab *slab = slab_of_map(store, chunks[done]);
		uint64_t bit;

		if (slab == NULL || !is_start(store, slab, chunks[done], &i))
			break;
		bit = (uint64_t)1 << (i % 64);
		if (slab != was || i / 64 != word) {
			if (claims->n == SLAB_CLAIMS)
				break;
			claim = &claims->claim[claims->n++];
			claim->slab = was = slab;
			claim->first = first_of(store, slab);
			claim->word = word = i / 64;
			mask = 0;
			count = 0;
			__builtin_prefetch(&slab->bits[word], 1);
		} else if ((mask & bit) != 0) {
			break;
		}
		more = run_of_neighbours(
		    store, chunks + done, n - done, i, mask, &bits);
		mask |= more != 0 ? bits : bit;
		done += more;
		claim->mask = mask;
		claim->n = count += 1 + more;
	}
	return done;
}

/* Is the slab that was found for it still what it was? */
static bool
claim_holds_locked(
    const struct slab_store *store, const struct slab_claim *claim)
{
	return slab_of_map(store, (void *)claim->first) == claim->slab &&
	       first_of(store, claim->slab) == claim->first;
}

static inline void
give_claim_locked(struct slab_store *store, const struct slab_claim *claim)
{
	struct slab *slab = claim->slab;

	slab->bits[claim->word] |= claim->mask;
	slab->nfree += claim->n;
	slab->hint = slab->hint < claim->word ? slab->hint : claim->word;
	given_locked(store, slab);
}

static void
ungive_claim_locked(struct slab_store *store, const struct slab_claim *claim)
{
	claim->slab->bits[claim->word] &= ~claim->mask;
	claim->slab->nfree -= claim->n;
	rebin_locked(store, claim->slab);
}

/* All of them, or none. */
static bool
give_claims_locked(
    struct slab_store *store, const struct slab_claims *claims, unsigned n)
{
	const struct slab_claim *claim = claims->claim;
	const struct slab_claim *end = claim + claims->n;

	for (; claim < end; claim++) {
		if (unlikely(
			!claim_holds_locked(store, claim) ||
			(claim->slab->bits[claim->word] & claim->mask) != 0))
			break;
		give_claim_locked(store, claim);
	}
	if (likely(claim == end)) {
		nused_add_locked(store, -(long)n);
		return true;
	}
	while (claim-- > claims->claim)
		ungive_claim_locked(store, claim);
	return false;
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
			done = gather(store, chunks, n, &claims);
		visit_lock(store);
		if (done == 0 || !give_claims_locked(store, &claims, done)) {
			done = done == 0 ? n : done;
			fault = give_each_locked(store, chunks, done, bad);
		}
		surplus =
		    surplus_locked(store, store->guarded ? 0 : EMPTY_KEPT);
		lock_release(&store->lock);
		slabs_destroy(store, surplus);
		chunks += done;
		n -= done;
	}
	return fault;
}

void
slab_give_raw(struct slab_store *store, void *chunk)
{
	struct slab *slab = NULL;
	unsigned i;

	lock_take(&store->lock);
	if (give_locked(store, chunk, &slab) == SLAB_FINE) {
		i = (unsigned)(((uintptr_t)chunk - first_of(store, slab)) /
			       store->layout.chunk);
		slab->bits[nwords(store) + i / 64] &=
		    ~((uint64_t)1 << (i % 64));
		given_locked(store, slab);
	}
	lock_release(&store->lock);
}

enum slab_fault
slab_inspect(struct slab_store *store, void *p)
{
	enum slab_fault fault = SLAB_FOREIGN;
	struct slab *slab;
	unsigned i;

	lock_take(&store->lock);
	slab = slab_find_locked(store, p);
	if (slab != NULL)
		fault = chunk_index(store, slab, p, &i);
	lock_release(&store->lock);
	return fault;
}

enum slab_fault
slab_look(struct slab_store *store, void *p, struct slab **slab, unsigned *i)
{
	/* The address map is read without a lock. */
	if (store->source != NULL)
		lock_take(&store->lock);
	*slab = slab_find_locked(store, p);
	if (store->source != NULL)
		lock_release(&store->lock);
	if (*slab == NULL)
		return SLAB_FOREIGN;
	return is_start(store, *slab, p, i) ? SLAB_FINE : SLAB_INTERIOR;
}

void
slab_reap(struct slab_store *store, unsigned keep)
{
	struct slab *surplus;

	lock_take(&store->lock);
	surplus = surplus_locked(store, keep);
	lock_release(&store->lock);
	slabs_destroy(store, surplus);
}

/* Is no chunk in use that lies in [from, to) of the slab, even in part? */
static bool
range_is_free(const struct slab_store *store, const struct slab *slab,
    size_t from, size_t to)
{
	size_t chunk = store->layout.chunk;
	size_t first = first_of(store, slab) - slab->span;
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

/* Parts that have memory for nothing. */
static uint64_t
idle_parts(const struct slab_store *store, const struct slab *slab)
{
	size_t part = store->part_bytes, bytes = store->layout.slab_bytes;
	uint64_t parts = 0;

	for (size_t at = 0, i = 0; at < bytes; at += part, i++) {
		size_t end = at + part < bytes ? at + part : bytes;

		if ((slab->purged >> i & 1) == 0 &&
		    range_is_free(store, slab, at, end))
			parts |= (uint64_t)1 << i;
	}
	return parts;
}

/*
 * Has the kernel take parts of a slab; those that it took.  Their chunks are
 * free and stay so.
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

static struct slab *
unswept_locked(struct slab_store *store)
{
	for (unsigned bin = SLAB_BINS - 1; bin >= BIN_SPARSE; bin--)
		if (!list_empty(&store->partial[bin])) {
			struct slab *slab =
			    list_first(&store->partial[bin], struct slab, link);

			if (!slab->swept)
				return slab;
		}
	return NULL;
}

/* So that nobody takes from it. */
static void
put_aside_locked(struct slab_store *store, struct slab *slab)
{
	list_remove(&slab->link);
	slab->bin = BIN_ASIDE;
	store->aside = slab;
}

/* The slab that is aside goes back to the lists. */
static void
put_back_locked(struct slab_store *store)
{
	struct slab *slab = store->aside;

	store->aside = NULL;
	list_init(&slab->link);
	slab->bin = BIN_FULL;
	rebin_locked(store, slab);
}

/* One slab.  False: there is none, or the kernel refuses. */
static bool
sweep_one(struct slab_store *store, size_t *purged)
{
	struct slab *slab, *surplus;
	uint64_t parts, done;

	lock_take(&store->lock);
	slab = unswept_locked(store);
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
	purged_set(store, slab, slab->purged | done);
	put_back_locked(store);
	surplus = surplus_locked(store, EMPTY_KEPT);
	lock_release(&store->lock);
	slabs_destroy(store, surplus);
	return done == parts;
}

/* In a child of fork(), of a sweep that was in the parent. */
static void
mend(struct slab_store *store)
{
	lock_take(&store->lock);
	if (store->aside != NULL)
		put_back_locked(store);
	lock_release(&store->lock);
}

size_t
slab_sweep(struct slab_store *store, size_t limit)
{
	/* Others may free all the time, so that there is always one. */
	uint32_t left = __atomic_load_n(&store->nslabs, __ATOMIC_RELAXED);
	size_t purged = 0;

	/* What is in free chunks of a debugged cache is to stay. */
	if (store->source != NULL || store->constructs ||
	    store->record_bytes != 0)
		return 0;
	mend(store);
	while (left-- > 0 && purged < limit && sweep_one(store, &purged))
		;
	if (purged != 0)
		heap_unhuge();
	return purged;
}

size_t
slab_swept_bytes(void)
{
	return __atomic_load_n(&swept_bytes, __ATOMIC_RELAXED);
}

bool
slab_store_end(struct slab_store *store)
{
	slab_reap(store, 0);
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

/* Parts without memory have no chunk in use. */
static bool
purged_is_right(const struct slab_store *store, const struct slab *slab)
{
	for (uint64_t parts = slab->purged; parts != 0; parts &= parts - 1) {
		size_t at = lowbit(parts) * store->part_bytes;

		if (!range_is_free(store, slab, at, at + store->part_bytes))
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

	for (unsigned w = 0; w < nwords(store); w++)
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
	for (unsigned bin = 0; bin <= BIN_EMPTY; bin++)
		right = right && bin_is_right(store, bin, &nslabs, &nfree);
	if (store->aside != NULL) {
		right = right && store->aside->bin == BIN_ASIDE &&
			slab_is_right(store, store->aside, &nfree);
		nslabs++;
	}
	right = right && nslabs == store->nslabs &&
		store->nused + nfree == nslabs * store->layout.nchunks;
	lock_release(&store->lock);
	return right;
}
