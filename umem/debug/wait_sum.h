/*
 * wait_sum.h - a sum of the bytes of a buffer that waits for a grace period
 *
 * Shared by the library, which reports a change (debug_buffer.c), and by umem
 * verify.
 */
#ifndef UMEM_WAIT_SUM_H
#define UMEM_WAIT_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "vmem/hash.h"

/* Bytes of a buffer that are compared. */
#define WAIT_SUM_BYTES ((size_t)1 << 20)

/*
 * Each step is a bijection of the sum so far and of the word, so any change of
 * a single word changes the sum of 64 bits.  Of these the result has 32, and
 * each of them depends on all: one change of 2^32 is not noticed.
 */
static inline uint32_t
wait_sum(const void *p, size_t n)
{
	const unsigned char *at = p;
	uint64_t sum = n, word;

	for (; n >= sizeof(word); at += sizeof(word), n -= sizeof(word)) {
		__builtin_memcpy(&word, at, sizeof(word));
		sum = hash_multiply(sum ^ word);
		sum ^= sum >> 32;
	}
	word = 0;
	__builtin_memcpy(&word, at, n);
	sum = hash_multiply(sum ^ word);
	return (uint32_t)(sum ^ sum >> 32);
}

#endif
