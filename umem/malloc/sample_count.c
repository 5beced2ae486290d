/*
 * sample_count.c - which byte is sampled next: countdowns in bytes
 *
 * The distance from one sample to the next, in bytes requested, is drawn from
 * an exponential distribution with the mean N.  This distribution has no
 * memory: from any byte on, the rest of the distance has the distribution of a
 * whole one.  So a thread need not finish a distance.  It counts down at most
 * COUNTDOWN_MAX bytes.  At the end of the countdown it takes a sample if one is
 * due, and then draws again.  Therefore every thread soon uses a changed N,
 * after one sample at most, and one sample in a large block does not hide
 * another.
 *
 * A block of s bytes is sampled with the probability 1 - exp(-s/N), and
 * represents as many blocks as the inverse of it; the tool computes that.
 *
 * While sampling is off, nothing is counted; see "On and off" in sample.c.
 */
#include "umem/base/random.h"
#include "umem/malloc/sample.h"
#include "umem/malloc/sample_count.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* A thread uses a changed mean after at most so many bytes.  Not measured. */
#define COUNTDOWN_MAX (256 * KIB)

/* Longest distance: no program allocates so much, and it fits in 64 bits. */
#define DISTANCE_MAX ((uint64_t)1 << 60)

__thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

static struct random sample_random;

/*
 * The process id makes the numbers of a child differ from those of its parent,
 * which has the same os_random().
 */
static uint64_t
process_bits(void)
{
	return (uint64_t)os_process_id() << 32;
}

uint64_t
sample_count_random(void)
{
	if (unlikely(
		__atomic_load_n(&sample_random.counter, __ATOMIC_RELAXED) == 0))
		__atomic_store_n(&sample_random.counter,
		    (os_random() ^ process_bits()) | 1, __ATOMIC_RELAXED);
	return random_next(&sample_random);
}

void
sample_count_after_fork(void)
{
	/* Most children draw no number: they write to no page here. */
	if (sample_random.counter != 0)
		sample_random.counter ^= process_bits();
}

/*
 * Returns -ln(u) of a number u that is uniform over (0, 1] and given by random
 * bits: u is 2^-k * m with 1 <= m < 2, and ln m is 2 atanh((m - 1) / (m + 1)).
 */
static double
minus_log_uniform(uint64_t bits)
{
	unsigned k = bits == 0 ? 64 : 63 - highbit(bits);
	uint64_t fraction = bits == 0 ? 0 : bits << k & INT64_MAX;
	double m = 1 + (double)fraction / 0x1p63;
	double z = (m - 1) / (m + 1), zz = z * z;
	double series =
	    1 + zz * (1. / 3 + zz * (1. / 5 + zz * (1. / 7 + zz * (1. / 9))));

	return (k + 1) * 0.69314718055994531 - 2 * z * series;
}

/*
 * Draws the distance in bytes to the next sample, that byte included.
 */
static uint64_t
distance_draw(uint64_t mean)
{
	double distance =
	    minus_log_uniform(sample_count_random()) * (double)mean;

	return distance < (double)DISTANCE_MAX ? (uint64_t)distance + 1
					       : DISTANCE_MAX;
}

static void
countdown_begin(uint64_t distance)
{
	umem_assert(distance > 0);
	sample_count.is_due = distance <= COUNTDOWN_MAX;
	sample_count.bytes_more =
	    (int32_t)(sample_count.is_due ? distance
					  : (uint64_t)COUNTDOWN_MAX) -
	    1;
}

/*
 * Decides whether a block of size bytes is a sample.  The countdown
 * had bytes_left before the block.
 */
static bool
countdown_pass_block(uint64_t bytes_left, uint64_t size)
{
	size_t mean = __atomic_load_n(&sampling.mean, __ATOMIC_RELAXED);
	uint64_t distance;

	umem_assert(bytes_left > 0 && bytes_left <= COUNTDOWN_MAX);
	if (mean <= 1) {
		countdown_begin(mean == 1 ? 1 : COUNTDOWN_MAX + 1);
		return mean == 1;
	}
	if (size < bytes_left) {
		sample_count.bytes_more = (int32_t)(bytes_left - size) - 1;
		return false;
	}
	/* In a new thread, too, no sample is due. */
	if (!sample_count.is_due) {
		distance = distance_draw(mean);
		size -= bytes_left;
		if (distance > size) {
			countdown_begin(distance - size);
			return false;
		}
	}
	countdown_begin(distance_draw(mean));
	return true;
}

bool
sample_count_end(size_t size)
{
	return countdown_pass_block(
	    (uint64_t)((int64_t)sample_count.bytes_more + (int64_t)size + 1),
	    size);
}

bool
sample_count_block(size_t size)
{
	return countdown_pass_block(
	    (uint64_t)sample_count.bytes_more + 1, size);
}
