/* hash.h - hashes of 64-bit numbers */
#ifndef VMEM_HASH_H
#define VMEM_HASH_H

#include <stdint.h>

/*
 * 2^64 / golden ratio, an odd number.  Multiples of it, modulo 2^64, are spread
 * evenly: Knuth, "The Art of Computer Programming", volume 3, section 6.4.
 */
#define HASH_FACTOR ((uint64_t)0x9e3779b97f4a7c15)

/*
 * A multiplicative hash.  Only its high bits depend on all bits of x; a caller
 * that needs few bits shifts the others out.
 */
static inline uint64_t
hash_multiply(uint64_t x)
{
	return x * HASH_FACTOR;
}

/*
 * A hash whose bits all depend on all bits of x (the finalizer of splitmix64:
 * Steele, Lea and Flood 2014).  Different x have different hashes.
 */
static inline uint64_t
hash_mix(uint64_t x)
{
	x = (x ^ x >> 30) * (uint64_t)0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * (uint64_t)0x94d049bb133111eb;
	return x ^ x >> 31;
}

#endif
