/*
 * seghash.c - hash table from an address to its allocated segment
 *
 * The table uses linear hashing: it grows by one bucket at a time.  A new
 * bucket b takes its members from a single bucket: its index is b with the
 * highest bit cleared.  No operation rehashes the whole table, so the time of
 * each operation is bounded, and the table adapts to any number of segments.
 *
 * The buckets are in arrays of doubling size: base contains the first 16, and
 * arrays[k] contains the buckets 16 << k to 2 * (16 << k) - 1.  An array never
 * moves.  While there is no memory for the next array, the chains grow longer.
 *
 *	nbuckets = 22, in binary 10110		an address with hash ...10101:
 *	buckets 0..15	base			21 < 22: bucket 21
 *	buckets 16..21	arrays[0]		with hash ...10111: 23 >= 22:
 *						bucket 23 - 16 = 7
 *
 * An insert adds a bucket if there are more segments than buckets.  A removal
 * takes up to four buckets away if there are fewer segments than a quarter of
 * the buckets.  An array that has become empty is kept until the
 * table has halved once more.  Otherwise a repeated pair of operations could
 * allocate and free the array each time.
 *
 * Eight consecutive quanta share a cache line of eight buckets, in mixed order.
 * A program that visits its allocations in address order therefore has fewer
 * cache misses.
 *
 * Locking: the arena's lock guards everything here.  The metadata allocator's
 * lock, a leaf, is taken inside.
 *
 * Source: Litwin, "Linear Hashing", VLDB 1980.
 */
#include "vmem/seghash.h"
#include "vmem/hash.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/*
 * The table shrinks if there are fewer segments than 1/SHRINK_RATIO of the
 * buckets, and then by as many buckets a removal, or else removals would empty
 * it faster.
 */
#define SHRINK_RATIO 4

/* Buckets in one cache line. */
#define LINE_BUCKETS 8

static inline size_t
seghash_index(const struct seghash *hash, uintptr_t addr)
{
	uint64_t x = addr >> hash->shift;
	/*
	 * Both halves of the product are used; otherwise addresses at a large
	 * stride would lose bits.
	 */
	unsigned __int128 wide =
	    (unsigned __int128)(x / LINE_BUCKETS) * HASH_FACTOR;
	uint64_t h = (uint64_t)wide ^ (uint64_t)(wide >> 64);

	return (h & ~(uint64_t)(LINE_BUCKETS - 1)) |
	       ((h ^ x) & (LINE_BUCKETS - 1));
}

/* The bucket with index i. */
static inline struct segment **
bucket_at(const struct seghash *hash, size_t i)
{
	if (i < SEGHASH_BASE)
		return (struct segment **)&hash->base[i];

	unsigned top = highbit(i);

	return &hash->arrays[top - SEGHASH_BASE_BITS][i ^ (size_t)1 << top];
}

/* The bucket for an address. */
static inline struct segment **
bucket_of(const struct seghash *hash, uintptr_t addr)
{
	size_t level = (size_t)1 << highbit(hash->nbuckets);
	size_t i = seghash_index(hash, addr) & (2 * level - 1);

	if (i >= hash->nbuckets)
		i &= level - 1;
	return bucket_at(hash, i);
}

void
seghash_init(struct seghash *hash, size_t quantum)
{
	*hash = (struct seghash){
	    .nbuckets = SEGHASH_BASE, .shift = highbit(quantum)};
}

static inline size_t
array_bytes(unsigned k)
{
	return ((size_t)SEGHASH_BASE << k) * sizeof(struct segment *);
}

static void
array_free(struct seghash *hash, unsigned k)
{
	if (hash->arrays[k] == NULL)
		return;
	meta_free(hash->arrays[k], array_bytes(k));
	hash->arrays[k] = NULL;
}

void
seghash_destroy(struct seghash *hash)
{
	for (unsigned k = 0; k < SEGHASH_ARRAYS; k++)
		array_free(hash, k);
}

/* Add one bucket; false if there is no memory for its array. */
static bool
bucket_add(struct seghash *hash)
{
	size_t b = hash->nbuckets;
	unsigned top = highbit(b);
	unsigned k = top - SEGHASH_BASE_BITS;
	size_t bit = (size_t)1 << top;

	if (k >= SEGHASH_ARRAYS)
		return false;
	if (hash->arrays[k] == NULL) {
		hash->arrays[k] = meta_alloc(array_bytes(k));
		if (hash->arrays[k] == NULL)
			return false;
	}

	struct segment **from = bucket_at(hash, b ^ bit);
	struct segment **to = bucket_at(hash, b);
	struct segment *seg;

	*to = NULL;
	while ((seg = *from) != NULL) {
		if (seghash_index(hash, seg->start) & bit) {
			*from = seg->chain;
			seg->chain = *to;
			*to = seg;
		} else {
			from = &seg->chain;
		}
	}
	hash->nbuckets = b + 1;
	return true;
}

/* Remove the last bucket. */
static void
bucket_remove_last(struct seghash *hash)
{
	size_t b = hash->nbuckets - 1;
	unsigned top = highbit(b);
	struct segment *seg = *bucket_at(hash, b);
	struct segment **to = bucket_at(hash, b ^ (size_t)1 << top);

	/*
	 * Walk the chain of the removed bucket to its end, because it is
	 * likely to be the shorter of the two, and append the other chain.
	 */
	if (seg != NULL) {
		struct segment **end = &seg->chain;

		while (*end != NULL)
			end = &(*end)->chain;
		*end = *to;
		*to = seg;
	}
	*bucket_at(hash, b) = NULL;
	hash->nbuckets = b;
	if (is_pow2(b))
		array_free(hash, top - SEGHASH_BASE_BITS + 1);
}

static inline bool
seghash_wants_shrink(const struct seghash *hash)
{
	return hash->nbuckets > SEGHASH_BASE &&
	       hash->nsegs < hash->nbuckets / SHRINK_RATIO;
}

static noinline void
seghash_grow(struct seghash *hash)
{
	/*
	 * If it fails, try again after so many inserts and removals as an
	 * eighth of the segments.  Otherwise each insert would make a system
	 * call.
	 */
	if (!bucket_add(hash))
		hash->retry_nsegs = hash->nsegs + hash->nsegs / 8;
}

static noinline void
seghash_shrink(struct seghash *hash)
{
	for (unsigned i = 0; i < SHRINK_RATIO && seghash_wants_shrink(hash);
	     i++)
		bucket_remove_last(hash);
}

void
seghash_insert(struct seghash *hash, struct segment *seg)
{
	struct segment **bucket = bucket_of(hash, seg->start);

	umem_assert(seg->type == VMEM_ALLOC);
	umem_assert(((seg->start | seg->size) >> hash->shift << hash->shift) ==
		    (seg->start | seg->size));
	umem_assert(seghash_find(hash, seg->start) == NULL);
	seg->chain = *bucket;
	*bucket = seg;
	hash->nsegs++;
	if (unlikely(hash->nsegs > hash->nbuckets &&
		     hash->nsegs >= hash->retry_nsegs))
		seghash_grow(hash);
}

struct segment *
seghash_remove(struct seghash *hash, uintptr_t addr)
{
	struct segment **at = bucket_of(hash, addr);
	struct segment *seg;

	for (; (seg = *at) != NULL; at = &seg->chain) {
		if (seg->start != addr)
			continue;
		umem_assert(hash->nsegs != 0 && seg->type == VMEM_ALLOC);
		*at = seg->chain;
		hash->nsegs--;
		if (unlikely(hash->retry_nsegs != 0))
			hash->retry_nsegs--;
		if (unlikely(seghash_wants_shrink(hash)))
			seghash_shrink(hash);
		return seg;
	}
	return NULL;
}

struct segment *
seghash_find(const struct seghash *hash, uintptr_t addr)
{
	struct segment *seg = *bucket_of(hash, addr);

	while (seg != NULL && seg->start != addr)
		seg = seg->chain;
	return seg;
}

bool
seghash_check(const struct seghash *hash)
{
	size_t n = 0;

	if (hash->nbuckets < SEGHASH_BASE)
		return false;
	for (size_t i = 0; i < hash->nbuckets; i++) {
		struct segment **bucket = bucket_at(hash, i);

		for (struct segment *seg = *bucket; seg != NULL;
		     seg = seg->chain) {
			if (seg->type != VMEM_ALLOC ||
			    bucket_of(hash, seg->start) != bucket)
				return false;
			n++;
		}
	}
	return n == hash->nsegs;
}
