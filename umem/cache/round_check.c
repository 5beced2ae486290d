/*
 * round_check.c - checks that the rounds of a full magazine are freed chunks
 *
 * A free compares its block with the two newest rounds and pushes it.  So a
 * magazine may hold a chunk that was never allocated, or one chunk twice.  When
 * a magazine is full and about to leave the CPU, it is checked:
 *
 *	slab	the bit of each round says that the chunk is out of its slab
 *	twice	no round is in the magazine twice
 *
 * The check misses a chunk that is popped again before its magazine is full,
 * and a chunk with its two rounds in two magazines.  UMEM_OPTIONS=checked
 * misses neither.
 *
 * Cost: 9 ns per round, measured on Emerald Rapids by loops that only fill and
 * empty magazines, which take twice as long when every magazine is checked.  So
 * after the first MAGAZINE_CHECKED magazines of a CPU and cache, one in
 * MAGAZINE_CHECK_EACH is checked, for 2 % in those loops.
 *
 * Method of "twice": each round sets a bit of a filter, at a hash of its
 * address.  A bit that is set already means a second round or a collision, and
 * a search among the earlier rounds tells which.
 *
 * Locking: none.  See slab_owner.c for chunks of a slab that is being released.
 */
#include <assert.h>

#include "umem/cache/cache.h"
#include "umem/cache/misuse.h"

/* Limited to 1 KiB, because the stack may be small. */
#define FILTER_BITS       8192
/* With more rounds than this most bits are set. */
#define FILTER_ROUNDS_MAX 510

static_assert((uint64_t)FILTER_BITS << 19 == (uint64_t)1 << 32,
    "filter_bit() takes the upper bits of a 32-bit hash");
static_assert(FILTER_ROUNDS_MAX <= FILTER_BITS / 16, "few bits are set");

static inline unsigned
filter_bit(const void *p)
{
	return (uint32_t)((uintptr_t)p >> 3) * 2654435761u / (1u << 19);
}

static bool
is_earlier_round(void *const *rounds, unsigned n, const void *p)
{
	while (n > 0)
		if (rounds[--n] == p)
			return true;
	return false;
}

static cold_path void
round_report(struct umem_cache *cache, const void *p, enum slab_fault fault)
{
	misuse_slab(cache_freed_by(cache), cache, p, fault);
}

static void
round_check_duplicates(
    struct umem_cache *cache, void *const *rounds, unsigned n)
{
	uint64_t filter[FILTER_BITS / 64] = {0};

	for (unsigned i = 0; i < n; i++) {
		unsigned bit = filter_bit(rounds[i]);
		uint64_t mask = (uint64_t)1 << (bit % 64);

		if (unlikely((filter[bit / 64] & mask) != 0) &&
		    is_earlier_round(rounds, i, rounds[i]))
			round_report(cache, rounds[i], SLAB_FREE);
		filter[bit / 64] |= mask;
	}
}

void
round_check(struct magazine_layer *layer, void *const *rounds, unsigned n)
{
	struct umem_cache *cache = container_of(layer, struct umem_cache, mag);

	/*
	 * Finding the slab of a chunk of a source takes a lock, and such a
	 * chunk need not be memory.
	 */
	if (cache->slabs.source != NULL || cache->slabs.records_holders)
		return;
	/* The round of an import cache is a resource, not an address. */
	for (unsigned i = 0; cache->import == NULL && i < n; i++) {
		enum slab_fault fault =
		    slab_round_fault(&cache->slabs, rounds[i]);

		if (unlikely(fault != SLAB_FINE))
			round_report(cache, rounds[i], fault);
	}
	if (n <= FILTER_ROUNDS_MAX)
		round_check_duplicates(cache, rounds, n);
}
