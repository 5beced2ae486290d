/* random.h - pseudo-random numbers that several threads may draw */
#ifndef UMEM_RANDOM_H
#define UMEM_RANDOM_H

#include "vmem/base.h"
#include "vmem/hash.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * A generator is a counter whose hashes are the numbers (splitmix64: Steele,
 * Lea and Flood 2014).  The start value of the counter is the secret: 0 gives
 * the same numbers in each process, random_seed() gives others.
 */
struct random {
	uint64_t counter; /* [a] */
};

/* Seeds the generator, unless that was done. */
static inline void
random_seed(struct random *r)
{
	if (unlikely(load_relaxed(&r->counter) == 0))
		store_relaxed(&r->counter, os_random() | 1);
}

/* Returns the next 64 random bits. */
static inline uint64_t
random_next(struct random *r)
{
	return hash_mix(add_relaxed(&r->counter, HASH_FACTOR));
}

/* Returns a random number below n, which is at most 2^32. */
static inline uint64_t
random_below(struct random *r, uint64_t n)
{
	umem_assert(n != 0 && n <= (uint64_t)1 << 32);
	return (random_next(r) >> 32) * n >> 32;
}

#endif
