/*
 * sample_count.h - which byte is sampled next: countdowns in bytes; see
 * sample_count.c
 */
#ifndef UMEM_SAMPLE_COUNT_H
#define UMEM_SAMPLE_COUNT_H

#include "vmem/base.h"

/* The countdown of the calling thread.  In static TLS. */
struct sample_count {
	/*
	 * The countdown ends with the byte after so many bytes: it has ended if
	 * this is negative.  The sign is tested without an instruction of its
	 * own.  0 in a new thread.
	 */
	int32_t bytes_more;
	bool is_due; /* the countdown ends with a sample */
};
extern hidden __thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

/*
 * Counts a block of a small size.  Returns false if the countdown has ended:
 * the caller then calls sample_count_end().
 */
static inline __attribute__((always_inline)) bool
sample_count_small(size_t size)
{
	return (sample_count.bytes_more -= (int32_t)size) >= 0;
}

/*
 * Must a block of this size be a sample?  sample_count_end() is for a block
 * with which sample_count_small() has ended the countdown,
 * sample_count_block() for a block that has not been counted.
 */
bool sample_count_end(size_t size);
bool sample_count_block(size_t size);

/* Random bits of the generator that draws the distances. */
uint64_t sample_count_random(void);

/*
 * Called in the child of fork(): makes its random numbers differ from the
 * parent's.
 */
void sample_count_after_fork(void);

#endif
