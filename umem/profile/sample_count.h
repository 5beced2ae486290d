/*
 * sample_count.h - which byte is sampled next: countdowns in bytes, and marks;
 * see sample_count.c
 */
#ifndef UMEM_SAMPLE_COUNT_H
#define UMEM_SAMPLE_COUNT_H

#include "vmem/base.h"

/* The countdown of the calling thread.  In static TLS. */
struct sample_count {
	/*
	 * The countdown ends with the byte after so many; 0 in a new thread.
	 * Below 0 only between sample_count_within() and sample_count_undo().
	 */
	int32_t bytes_more;
	/* At its end, count down COUNTDOWN_MAX bytes as often as this. */
	uint16_t nmore;
	/* The mean for which the sample at the end is due; 0: none is. */
	uint16_t mean_tag;
};
extern hidden __thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

/*
 * Counts a block that ends before the countdown does; size is at most
 * SIZE_SMALL.  Returns false if it does not: then sample_count_undo() must
 * follow, and sample_count_block() must count it.
 */
static inline __attribute__((always_inline)) bool
sample_count_within(size_t size)
{
	sample_count.bytes_more -= (int32_t)size;
	return likely(sample_count.bytes_more >= 0);
}

/*
 * A signal handler that allocates may have begun a countdown since
 * sample_count_within().
 */
static inline void
sample_count_undo(size_t size)
{
	if (sample_count.bytes_more < 0)
		sample_count.bytes_more += (int32_t)size;
}

/* Counts a block, and returns true if it must be a sample. */
bool sample_count_block(size_t size);

/*
 * Rounds of at most so many bytes are marked (cpu_marks.h) to decide about
 * samples; 0: none are.
 */
size_t sample_count_marked_max(size_t mean);

/*
 * Returns true if a block of size bytes, whose round of round_bytes was marked,
 * must be a sample.
 */
bool sample_count_marked(size_t size, size_t round_bytes);

/*
 * Must the sample of a block of size bytes, taken with this mean, stay a sample
 * with twice this mean?  About every second one must.
 */
bool sample_count_keeps(uint64_t size, uint64_t mean);

/* Sets the functions of cpu_marks; at start. */
void sample_count_start(void);

/*
 * Returns the bytes for which a sample of this size stands, if mean bytes lie
 * between two samples: the size divided by the probability of the sample.
 */
uint64_t sample_weight(uint64_t size, uint64_t mean);

/* Random bits of the generator that draws the distances. */
uint64_t sample_count_random(void);

/*
 * Called in the child of fork(): makes its random numbers differ from the
 * parent's.
 */
void sample_count_after_fork(void);

#endif
