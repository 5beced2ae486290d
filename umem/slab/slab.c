/*
 * slab.c - slabs: creation, colours, lists, destruction
 *
 * A slab is a span from the cache's arena, cut into equal chunks
 * (slab_layout.c).  Its description (struct slab) is apart from the span, so
 * the library neither trusts nor touches the contents of a free chunk: a bit
 * for each chunk says whether it is free.
 *
 * To take is to allocate chunks from slabs (slab_take.c); to give is to free
 * chunks to their slabs (slab_give.c).
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
 *	for each chunk, "constructed", records this.  The states of a chunk are
 *
 *	free con.	state		how it leaves the state
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
 *	Locking: the "constructed" bits are the only parts of a slab that are
 *	written without the lock.  slab_constructed() sets that bit of a chunk
 *	that the caller has in hand.  Because other bits of the word belong to
 *	other threads, each write is an atomic or, or and.  Relaxed order is
 *	enough: the bit of a chunk is read again only after the chunk was freed,
 *	and the program orders its free after its allocation.
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
 *	A thread unlists the slabs that it releases in chains of at most
 *	SLAB_CHAIN_BYTES.  If another thread forks meanwhile, the child never
 *	gets the slabs of the chain: they are in no list, and the thread that
 *	would free them does not exist there.
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
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/probe.h"
#include "vmem/vmem.h"

static size_t
slab_desc_bytes(const struct slab_store *store)
{
	return sizeof(struct slab) + sizeof(uint64_t) * slab_nwords(store) *
					 (store->constructs ? 2 : 1);
}

void
slab_store_init(struct slab_store *store, const struct slab_layout *layout,
    vmem_t *source, unsigned map_class, bool constructs)
{
	umem_assert(layout->nchunks > 0);
	lock_init(&store->lock, LOCK_SLAB);
	store->layout = *layout;
	store->source = source;
	store->map_class = map_class;
	store->constructs = constructs;
	store->part_bytes =
	    align_up(layout->slab_bytes / SLAB_PARTS_MAX, os_page_size());
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
	lock_assert_held(&store->lock);
	umem_assert(store->nempty > 0);
	store->nempty--;
	if (store->nunused > store->nempty)
		store->nunused = store->nempty;
}

noinline void
slab_rebin_to_locked(struct slab_store *store, struct slab *slab, unsigned bin)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->bin != SLAB_BIN_RETIRED);
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

size_t
slab_memory(const struct slab_store *store)
{
	if (store->source != NULL || store->is_unbacked)
		return 0;
	return store->has_guard_pages ? firewall_page_bytes(&store->layout)
				      : store->layout.slab_bytes;
}

static void *
span_from_source(struct slab_store *store)
{
	size_t bytes = store->layout.slab_bytes;
	bool zeroed;
	void *at;

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

	if (store->source != NULL) {
		vmem_xfree(store->source, (void *)span, bytes);
		return;
	}
	page_map_clear((void *)span, bytes);
	if (store->has_guard_pages)
		firewall_free((void *)span, &store->layout);
	else if (!store->is_unbacked || os_commit((void *)span, bytes))
		heap_free((void *)span, bytes);
	else
		/* Its addresses are lost; it has no memory. */
		account_add(&account.quarantined, bytes);
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

	colour = load_relaxed(&store->colour);
	store_relaxed(
	    &store->colour, slab_layout_next_colour(&store->layout, colour));
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

bool
slab_each_used_locked(struct slab_store *store,
    bool (*f)(struct slab *slab, void *arg), void *arg)
{
	lock_assert_held(&store->lock);
	list_foreach (slab, &store->full, struct slab, link)
		if (!f(slab, arg))
			return false;
	for (unsigned bin = 0; bin < SLAB_BINS; bin++)
		list_foreach (slab, &store->partial[bin], struct slab, link)
			if (!f(slab, arg))
				return false;
	return store->isolated == NULL || f(store->isolated, arg);
}

/* Addresses of chunks that are taken. */
struct some {
	void **chunks;
	unsigned n, most;
};

static bool
add_used_locked(struct slab *slab, void *arg)
{
	const struct slab_store *store = slab->store;
	struct some *some = arg;

	lock_assert_held(&store->lock);
	for (unsigned i = 0; i < slab->high && some->n < some->most; i++)
		if ((slab->bits[i / 64] >> (i % 64) & 1) == 0)
			some->chunks[some->n++] =
			    (void *)(slab_first(store, slab) +
				     i * store->layout.chunk);
	return some->n < some->most;
}

unsigned
slab_some_used(struct slab_store *store, void **chunks, unsigned n)
{
	struct some some = {.chunks = chunks, .most = n};

	lock_take(&store->lock);
	slab_each_used_locked(store, add_used_locked, &some);
	lock_release(&store->lock);
	return some.n;
}

struct slab *
slab_create(struct slab_store *store)
{
	struct slab *slab;
	void *span;

	if (store->source != NULL && !slab_hash_ready(store))
		return NULL;
	slab = desc_alloc(store);
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
	/* The chunk of a slab with a guard page includes that page. */
	umem_assert(store->has_guard_pages ||
		    slab_first(store, slab) +
			    store->layout.nchunks * store->layout.chunk <=
			slab->span + store->layout.slab_bytes);
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
	probe_fire(umem, slab_create, store->name, slab->span,
	    store->layout.slab_bytes);
	return slab;
}

void
slab_register_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->bin == SLAB_BIN_EMPTY && slab->store == store);
	list_add_head(&store->empty, &slab->link);
	store->nempty++;
	nslabs_add_locked(store, &store->nslabs, 1);
	nchunks_add_locked(store, &store->nraw, slab->nraw);
	store_relaxed(&store->ncreated, store->ncreated + 1);
	if (store->source != NULL)
		slab_hash_put_locked(store, slab);
}

void
slab_unlist_empty_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(slab->bin == SLAB_BIN_EMPTY);
	list_remove(&slab->link);
	nempty_decrement_locked(store);
	nchunks_add_locked(store, &store->nraw, -(long)slab->nraw);
}

void
slab_unregister_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	if (slab->purged_parts != 0)
		page_purge_record(store, slab, 0);
	nslabs_add_locked(store, &store->nslabs, -1);
	if (store->source != NULL)
		slab_hash_remove_locked(store, slab);
}

/* Destructs the constructed chunks of an unlisted slab, and releases it. */
static void
slab_destroy(struct slab_store *store, struct slab *slab)
{
	umem_assert(slab->nfree == store->layout.nchunks);

	const uint64_t *constructed = slab->bits + slab_nwords(store);

	for (unsigned w = 0; store->constructs && w < slab_nwords(store); w++)
		for (uint64_t bits = constructed[w]; bits != 0;
		     bits &= bits - 1)
			store->owner->destruct(
			    store, (void *)(slab_first(store, slab) +
					    (w * 64 + lowbit(bits)) *
						store->layout.chunk));
	if (unlikely(store->is_annotated))
		checker_slab_destroy(
		    (void *)slab->span, store->layout.slab_bytes);
	probe_fire(umem, slab_destroy, store->name, slab->span,
	    store->layout.slab_bytes);
	span_free(store, slab->span);
	desc_free(store, slab);
}

/*
 * The chunk is the caller's, so no other thread takes or gives it meanwhile,
 * and its full slab is neither purged nor destroyed.  A thread that frees it
 * wrongly finds another owner in the page map, as when a slab was destroyed
 * (Claims).  A child of fork() in which the caller does not exist has a chunk
 * that is taken for ever, in a slab that is in no list.
 */
bool
slab_detach(struct slab_store *store, void *chunk)
{
	struct slab *slab = page_map_owner(chunk);

	if (store->layout.chunk != store->layout.slab_bytes ||
	    store->constructs || store->source != NULL ||
	    store->has_guard_pages || store->is_unbacked ||
	    store->is_annotated || store->record_bytes != 0)
		return false;
	umem_assert(slab->store == store && slab->span == (uintptr_t)chunk);
	lock_take(&store->lock);
	if (unlikely(slab->bin != SLAB_BIN_FULL)) {
		lock_release(&store->lock);
		return false;
	}
	list_remove(&slab->link);
	slab_unregister_locked(store, slab);
	nchunks_add_locked(store, &store->nused, -1);
	lock_release(&store->lock);
	page_map_clear(chunk, store->layout.slab_bytes);
	desc_free(store, slab);
	return true;
}

unsigned
slab_chain_most(const struct slab_store *store)
{
	size_t bytes = store->layout.slab_bytes;

	return bytes < SLAB_CHAIN_BYTES ? (unsigned)(SLAB_CHAIN_BYTES / bytes)
					: 1;
}

/*
 * Unlists empty slabs beyond keep, at most slab_chain_most(), and returns them
 * as a chain.
 */
static struct slab *
slab_chain_empty_locked(struct slab_store *store, unsigned keep)
{
	lock_assert_held(&store->lock);

	struct slab *chain = NULL;

	if (likely(store->nempty <= keep))
		return NULL;
	for (unsigned left = slab_chain_most(store);
	     left > 0 && store->nempty > keep; left--) {
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
	lock_assert_held(&store->lock);
	if (likely(!store->is_type_stable))
		return slab_chain_empty_locked(store, keep);
	if (store->nempty > keep)
		slab_want_retire_locked(store, keep);
	return NULL;
}

bool
slab_destroy_chain(struct slab_store *store, struct slab *chain)
{
	unsigned n = 0;

	for (; chain != NULL; n++) {
		struct slab *slab = chain;

		chain = slab->next;
		slab_destroy(store, slab);
	}
	return n != 0 && n == slab_chain_most(store);
}

void
slab_destroy_surplus(
    struct slab_store *store, struct slab *chain, unsigned keep)
{
	while (slab_destroy_chain(store, chain)) {
		lock_take(&store->lock);
		chain = slab_surplus_locked(store, keep);
		slab_sample_check_locked(store);
		lock_release(&store->lock);
	}
}

void
slab_lock_counted(struct slab_store *store)
{
	if (unlikely(!lock_try(&store->lock))) {
		/* Relaxed: the count only affects the size of magazines. */
		add_relaxed(&store->ncontended, 1);
		lock_take(&store->lock);
	}
	store_relaxed(&store->nacquired, store->nacquired + 1);
}

/*
 * Destroys the slabs of the chain and the others beyond keep.  Of a stable
 * store, has slabs retired if that was requested.
 */
static void
slab_surplus_end(struct slab_store *store, struct slab *surplus, unsigned keep)
{
	slab_destroy_surplus(store, surplus, keep);
	if (unlikely(store->is_type_stable) &&
	    slab_retire_wanted(store) != UINT_MAX)
		store->owner->want_retire(store);
}

void
slab_reap(struct slab_store *store, unsigned keep)
{
	struct slab *surplus;

	lock_take(&store->lock);
	surplus = slab_surplus_locked(store, keep);
	slab_sample_check_locked(store);
	lock_release(&store->lock);
	slab_surplus_end(store, surplus, keep);
}

bool
slab_reap_unused(struct slab_store *store)
{
	struct slab *surplus;
	unsigned keep;
	bool left;

	lock_take(&store->lock);
	keep = store->nempty - store->nunused;
	surplus = slab_surplus_locked(store, keep);
	store->nunused = store->nempty;
	/* If all empty slabs are to be retired, a later call finds no more. */
	left = store->nempty != 0 && slab_retire_wanted(store) != 0;
	lock_release(&store->lock);
	slab_surplus_end(store, surplus, keep);
	return left;
}

/* Destructs the ready chunks of slabs that have chunks out. */
static void
slab_destruct_ready(struct slab_store *store)
{
	void *chunk;

	while (slab_take(store, &chunk, 1) == 1) {
		store->owner->destruct(store, chunk);
		slab_give_raw(store, chunk);
	}
}

/* Frees the chunks in hand of a slab: their constructors will not return. */
static void
slab_free_in_hand_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);
	umem_assert(store->constructs);

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
		nchunks_add_locked(store, &store->nraw, 1);
		nchunks_add_locked(store, &store->nused, -1);
	}
	slab_rebin_locked(store, slab);
}

static void
slab_free_in_hand(struct slab_store *store)
{
	lock_take(&store->lock);
	for (unsigned bin = 0; bin <= SLAB_BIN_FULL; bin++)
		list_foreach_safe (
		    slab, slab_bin_list(store, bin), struct slab, link)
			slab_free_in_hand_locked(store, slab);
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

	do {
		lock_take(&store->lock);
		empty = slab_chain_empty_locked(store, 0);
		lock_release(&store->lock);
	} while (slab_destroy_chain(store, empty));
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
slab_used(struct slab_store *store)
{
	return load_relaxed(&store->nused);
}

size_t
slab_total(const struct slab_store *store)
{
	return (size_t)load_relaxed(&store->nslabs) * store->layout.nchunks;
}
