/*
 * slab_owner.c - the chunks that the program holds
 *
 * A chunk is in its slab, in a magazine, or held by the program.  The slab's
 * bit tells the first state from the other two.  By default the library knows
 * no more: slab_round_fault() compares one round with that bit.
 *
 * With UMEM_OPTIONS=checked a slab has one more bit for each chunk: 1 while the
 * program holds the chunk.  The allocating thread sets it, the freeing thread
 * clears it, and a free that finds it clear is misuse.
 *
 * Races
 *	Only the allocating thread has the chunk when it sets the bit.  Two
 *	threads that free one chunk at once compete by compare-and-swap, and the
 *	loser reports.  A chunk that the program holds keeps its slab, and the
 *	slab keeps its description.  Only a second free can meet a slab that is
 *	being released.  It reads a description that is gone, or another in its
 *	place.  Because memory for descriptions stays mapped (meta.c), the read
 *	is harmless.  The second free writes nothing unless the word that it
 *	read shows the chunk as held and is unchanged at the swap.
 *
 *	slab_round_fault() reads a word of the slab's bits without the lock,
 *	while other threads write bits of other chunks in that word.  A writer
 *	holds the lock, so it reads the word plainly, and it writes the word by
 *	one relaxed atomic store.  The bit of a chunk that is out is 0 in each
 *	of these stores: the thread that took the chunk cleared the bit, and
 *	every later store was computed under the lock from a word with that 0.
 *	The reader cannot find an older word, because the chunk came to it by
 *	steps that order memory: the lock of the slabs, the release store of a
 *	header's top and the load of it, the depot's lock, a switch of threads
 *	on one CPU, and the program's own means.  Therefore relaxed order is
 *	enough, and a 1 is a second free.
 */
#include "umem/slab/slab_inner.h"

enum slab_fault
slab_round_fault(struct slab_store *store, void *p)
{
	struct slab *slab;
	enum slab_fault fault;
	unsigned i = 0;

	fault = slab_find_chunk(store, p, &slab, &i);
	if (fault != SLAB_FINE)
		return fault;
	/* Relaxed: see "Races". */
	if ((__atomic_load_n(&slab->bits[i / 64], __ATOMIC_RELAXED) >>
		    (i % 64) &
		1) == 0)
		return SLAB_FINE;
	return i >= __atomic_load_n(&slab->high, __ATOMIC_RELAXED) ? SLAB_NEVER
								   : SLAB_FREE;
}

static uint64_t *
held_word(const struct slab_store *store, struct slab *slab, unsigned i)
{
	umem_assert(store->records_holders && i < store->layout.nchunks);
	return &slab->bits[slab_nwords(store) * slab_held_map(store) + i / 64];
}

void
slab_hold(struct slab_store *store, void *p)
{
	struct slab *slab;
	unsigned i = 0;

	slab_find_chunk(store, p, &slab, &i);
	/* Relaxed: the program hands p on by means of its own. */
	__atomic_fetch_or(held_word(store, slab, i), (uint64_t)1 << (i % 64),
	    __ATOMIC_RELAXED);
}

bool
slab_is_held(struct slab_store *store, void *p)
{
	struct slab *slab;
	unsigned i = 0;

	return slab_find_chunk(store, p, &slab, &i) == SLAB_FINE &&
	       (__atomic_load_n(held_word(store, slab, i), __ATOMIC_RELAXED) >>
		       (i % 64) &
		   1) != 0;
}

enum slab_fault
slab_unhold(struct slab_store *store, void *p)
{
	enum slab_fault fault;
	struct slab *slab;
	uint64_t *word, was, bit;
	unsigned i = 0;

	fault = slab_find_chunk(store, p, &slab, &i);
	if (fault != SLAB_FINE)
		return fault;
	word = held_word(store, slab, i);
	bit = (uint64_t)1 << (i % 64);
	was = __atomic_load_n(word, __ATOMIC_RELAXED);
	do {
		if ((was & bit) == 0) {
			fault = slab_round_fault(store, p);
			return fault == SLAB_FINE ? SLAB_FREE : fault;
		}
	} while (!__atomic_compare_exchange_n(
	    word, &was, was & ~bit, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return SLAB_FINE;
}
