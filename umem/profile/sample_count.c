/*
 * sample_count.c - which byte is sampled next: countdowns in bytes, and marks
 *
 * The distance from one sample to the next, in bytes requested, is drawn from
 * an exponential distribution with the mean N.  This distribution has no
 * memory: from any byte on, the rest of the distance has the distribution of a
 * whole one.  So a thread need not finish a distance.  It counts down at most
 * COUNTDOWN_MAX bytes at a time.  At the end of a countdown it continues with
 * the distance, or, if N has changed, draws another one.  Therefore every
 * thread soon uses a changed N, after one sample at most.  Behind a sample it
 * draws again, so one sample in a large block does not hide another.
 *
 * A block of s bytes is sampled with the probability 1 - exp(-s/N), and
 * represents as many blocks as the inverse of it; the tool computes that.
 *
 * The smallest sizes are not counted: marked rounds decide about their blocks
 * (magazine/cpu_marks.h).  A round of r bytes is marked with the probability 1
 * - exp(-r/N), and the block of s bytes that takes it is then a sample with the
 * probability (1 - exp(-s/N)) / (1 - exp(-r/N)).  So the chance of a block is
 * the same on both ways.  The rounds of a loaded magazine are counted like
 * blocks.
 *
 * While sampling is off, nothing is counted; see "On and off" in sample.c.
 */
#include "magazine/cpu_marks.h"
#include "umem/base/random.h"
#include "umem/base/size_class.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* A thread uses a changed mean after at most so many bytes. */
#define COUNTDOWN_MAX (256 * KIB)

/* Longest distance: no program allocates so much, and it fits in 64 bits. */
#define DISTANCE_MAX ((uint64_t)1 << 60)

__thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

static struct random sample_random;

/*
 * The process id makes the numbers of a child differ from those of its parent,
 * which has the same os_random().  Where the samples lie shall not depend
 * on it if addresses are not random.
 */
static uint64_t
process_bits(void)
{
	return os_addresses_are_random() ? (uint64_t)os_process_id() << 32 : 0;
}

uint64_t
sample_count_random(void)
{
	if (unlikely(load_relaxed(&sample_random.counter) == 0))
		store_relaxed(
		    &sample_random.counter, (os_random() ^ process_bits()) | 1);
	return random_next(&sample_random);
}

start_path void
sample_count_after_fork(void)
{
	/*
	 * Most children draw no number: they write to no page here.  A process
	 * that halves its samples has drawn some.
	 */
	if (sample_random.counter != 0) {
		sample_random.counter ^= process_bits();
		sampling.is_halving = 0;
	}
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

/* Draws the number of bytes before the next sampled one. */
static uint64_t
distance_draw(uint64_t mean)
{
	double distance =
	    minus_log_uniform(sample_count_random()) * (double)mean;

	return distance < (double)DISTANCE_MAX ? (uint64_t)distance
					       : DISTANCE_MAX;
}

/* In mean_tag: a sample is due at the end of the distance. */
#define TAG_DUE 1u

/* A distance of this mean that ends with a sample; neither 0 nor TAG_DUE. */
static uint16_t
tag_of(size_t mean)
{
	return (uint16_t)(hash_multiply(mean) >> 48 | 2 | TAG_DUE);
}

/* The longest distance that struct sample_count can have. */
#define COUNTED_MAX ((uint64_t)UINT16_MAX * COUNTDOWN_MAX)

/*
 * Counts down to the byte after so many.  A distance that is too long is cut:
 * at its end no sample is due, and another distance is drawn.
 */
static void
countdown_begin(uint64_t bytes, uint16_t mean_tag)
{
	if (bytes > COUNTED_MAX) {
		bytes = COUNTED_MAX;
		mean_tag &= (uint16_t)~TAG_DUE;
	}
	sample_count.mean_tag = mean_tag;
	sample_count.nmore = (uint16_t)(bytes / COUNTDOWN_MAX);
	sample_count.bytes_more = (int32_t)(bytes % COUNTDOWN_MAX);
}

/*
 * Returns the bytes before the end of the thread's distance; those before the
 * end of its countdown if the distance is of another mean.
 */
static uint64_t
countdown_left(bool is_current)
{
	/* Below 0 in a signal handler; see sample_count_undo(). */
	uint64_t bytes =
	    sample_count.bytes_more < 0 ? 0 : (uint64_t)sample_count.bytes_more;

	umem_assert(bytes < COUNTDOWN_MAX);
	if (is_current)
		bytes += (uint64_t)sample_count.nmore * COUNTDOWN_MAX;
	return bytes;
}

/*
 * Counts bytes up to the next sampled one.  Returns the number of bytes before
 * it; size: none is sampled.  mean is above 1.
 */
static uint64_t
countdown_pass(uint64_t size, size_t mean)
{
	uint16_t tag = tag_of(mean), now = sample_count.mean_tag;
	bool is_current = (now | TAG_DUE) == tag;
	uint64_t before = countdown_left(is_current);

	if (!is_current)
		now = 0;
	if (before < size && now != tag) {
		before += distance_draw(mean);
		now = tag;
	}
	if (before >= size) {
		countdown_begin(before - size, now);
		return size;
	}
	countdown_begin(distance_draw(mean), tag);
	return before;
}

bool
sample_count_block(size_t size)
{
	size_t mean = load_relaxed(&sampling.mean);

	if (mean <= 1) {
		countdown_begin(mean == 1 ? 0 : COUNTDOWN_MAX - 1, 0);
		return mean == 1;
	}
	return countdown_pass(size, mean) != size;
}

size_t
sample_count_marked_max(size_t mean)
{
	size_t bytes = size_min(mean / CANDIDATE_EVERY, SIZE_SMALL);
	unsigned class = size_class_small(bytes);
	if (size_classes.bytes[class] > bytes)
		class --;
	return class == 0 ? 0 : size_classes.bytes[class];
}

/* Returns 1 - exp(-x).  x is small. */
static double
one_minus_exp(double x)
{
	umem_assert(x >= 0 && x <= 1. / 256);
	return x * (1 - x / 2 * (1 - x / 3));
}

/* True with the probability a / b. */
static bool
happens(double a, double b)
{
	return (double)(sample_count_random() >> 11) * b < a * 0x1p53;
}

/* The part of rounds of this size that is marked. */
static double
marked_part(size_t bytes, size_t mean)
{
	return one_minus_exp((double)bytes / (double)mean);
}

bool
sample_count_marked(size_t size, size_t round_bytes)
{
	size_t mean = load_relaxed(&sampling.mean);

	umem_assert(size <= round_bytes);
	if (mean == 0 || round_bytes > sample_count_marked_max(mean))
		return false;
	return happens(marked_part(size, mean), marked_part(round_bytes, mean));
}

/* See cpu_marks.h. */
static uint32_t
candidate_distance(void)
{
	return (uint32_t)(minus_log_uniform(sample_count_random()) *
			  CANDIDATE_EVERY);
}

static bool
candidate_accept(size_t bytes)
{
	size_t mean = load_relaxed(&sampling.mean);

	return mean != 0 && bytes <= sample_count_marked_max(mean) &&
	       happens(marked_part(bytes, mean),
		   one_minus_exp(1. / CANDIDATE_EVERY));
}

static unsigned
marks_find(size_t bytes, unsigned n)
{
	size_t mean = load_relaxed(&sampling.mean);

	umem_assert(bytes != 0);
	if (mean == 0 || bytes > sample_count_marked_max(mean))
		return n;
	return (unsigned)(countdown_pass(n * bytes, mean) / bytes);
}

void
sample_count_start(void)
{
	static const struct cpu_mark_chooser chooser = {
	    .candidate_distance = candidate_distance,
	    .find = marks_find,
	    .accept = candidate_accept};

	cpu_marks.chooser = &chooser;
}

/*
 * Steps of sample_weight(): the exponent, at most WEIGHT_EXACT, is halved so
 * often that five terms of the series are exact to 10^-13.
 */
#define WEIGHT_STEPS 12

/* exp(-x) is less than 10^-17 from here on. */
#define WEIGHT_EXACT 40

uint64_t
sample_weight(uint64_t size, uint64_t mean)
{
	double x = mean == 0 ? WEIGHT_EXACT : (double)size / (double)mean, y;

	if (x >= WEIGHT_EXACT)
		return size;
	if (size == 0)
		return mean;
	x /= 1 << WEIGHT_STEPS;
	/* 1 - exp(-x), and then of 2x: 1 - (1 - y)^2 is y (2 - y). */
	y = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
	for (int i = 0; i < WEIGHT_STEPS; i++)
		y *= 2 - y;
	return (uint64_t)((double)size / y + 0.5);
}

/*
 * The probability is that of the sample with twice the mean, divided by that
 * with the mean.  Both divide the size, see sample_weight().
 */
bool
sample_count_keeps(uint64_t size, uint64_t mean)
{
	return happens((double)sample_weight(size, mean),
	    (double)sample_weight(size, 2 * mean));
}
