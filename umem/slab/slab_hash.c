/*
 * slab_hash.c - finds slabs by their spans
 *
 * For sources that the page map does not cover: their integers need not be
 * addresses.  A span is at most slab_bytes long and starts anywhere, so the
 * span of a chunk's slab starts in the chunk's own window of slab_bytes or in
 * the window before.
 *
 * Locking: store->lock guards the chains.  Memory for more chains is allocated
 * without it.
 */
#include "umem/slab/slab_inner.h"
#include "vmem/hash.h"
#include "vmem/meta.h"

/* Chains at first; they double when there are two slabs for each. */
#define HASH_FIRST 16

static struct slab **
slab_hash_chain_locked(struct slab_store *store, uintptr_t window)
{
	lock_assert_held(&store->lock);
	umem_assert(is_pow2(store->hash_size));

	uint64_t hash = hash_multiply(window) >> 32;

	return &store->hash[hash & (store->hash_size - 1)];
}

static uintptr_t
slab_hash_window(const struct slab_store *store, uintptr_t at)
{
	return at / store->layout.slab_bytes;
}

void
slab_hash_put_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);

	struct slab **chain =
	    slab_hash_chain_locked(store, slab_hash_window(store, slab->span));

	slab->next = *chain;
	*chain = slab;
}

void
slab_hash_remove_locked(struct slab_store *store, struct slab *slab)
{
	lock_assert_held(&store->lock);

	struct slab **at =
	    slab_hash_chain_locked(store, slab_hash_window(store, slab->span));

	while (*at != slab) {
		umem_assert(*at != NULL);
		at = &(*at)->next;
	}
	*at = slab->next;
}

struct slab *
slab_hash_find_locked(struct slab_store *store, uintptr_t p)
{
	lock_assert_held(&store->lock);

	uintptr_t window = slab_hash_window(store, p);

	if (store->hash == NULL)
		return NULL;
	for (uintptr_t w = window;; w--) {
		for (struct slab *s = *slab_hash_chain_locked(store, w);
		     s != NULL; s = s->next)
			if (p - s->span < store->layout.slab_bytes)
				return s;
		if (w == 0 || w != window)
			return NULL;
	}
}

bool
slab_hash_check_locked(struct slab_store *store)
{
	uint32_t n = 0;

	lock_assert_held(&store->lock);
	for (uint32_t i = 0; i < store->hash_size; i++)
		for (struct slab *s = store->hash[i]; s != NULL; s = s->next) {
			uintptr_t window = slab_hash_window(store, s->span);

			if (s->store != store || ++n > store->nslabs ||
			    slab_hash_chain_locked(store, window) !=
				&store->hash[i])
				return false;
		}
	return n == store->nslabs;
}

/*
 * Makes chains the store's chains if there are more of them than now.  Returns
 * the chains to free: the old ones, or the new ones if another thread was
 * faster.
 */
static struct slab **
slab_hash_replace_locked(
    struct slab_store *store, struct slab **chains, uint32_t size)
{
	lock_assert_held(&store->lock);

	uint32_t oldsize = store->hash_size;
	struct slab **old = store->hash;

	if (size <= oldsize)
		return chains;
	store->hash = chains;
	store_relaxed(&store->hash_size, size);
	for (uint32_t i = 0; i < oldsize; i++)
		while (old[i] != NULL) {
			struct slab *slab = old[i];

			old[i] = slab->next;
			slab_hash_put_locked(store, slab);
		}
	return old;
}

/*
 * Doubles the number of chains.  If there is no memory, the chains get longer.
 * Returns false if there is no memory for the first ones.
 */
static bool
slab_hash_grow(struct slab_store *store, uint32_t oldsize)
{
	uint32_t size = oldsize == 0 ? HASH_FIRST : 2 * oldsize;
	struct slab **chains = meta_alloc(size * sizeof(chains[0]));
	struct slab **old;

	if (chains == NULL)
		return oldsize != 0;
	lock_take(&store->lock);
	old = slab_hash_replace_locked(store, chains, size);
	lock_release(&store->lock);
	if (old == chains)
		meta_free(old, size * sizeof(old[0]));
	else if (old != NULL)
		meta_free(old, oldsize * sizeof(old[0]));
	return true;
}

bool
slab_hash_ready(struct slab_store *store)
{
	uint32_t size = load_relaxed(&store->hash_size);

	umem_assert(store->source != NULL);
	if (size != 0 && load_relaxed(&store->nslabs) <= 2 * size)
		return true;
	return slab_hash_grow(store, size);
}
