/*
 * slots.c - threads that replace random blocks of a set of their own
 *
 *	glibc-thread.N	1024 slots for each of N threads; sizes of 4 bytes to
 *			32 KiB, where the probability of a size falls with its
 *			square; the blocks are not written
 *	alloc-test.N	2^18 slots for all threads together; sizes up to 1 KiB,
 *			each power of two half as likely as the one below;
 *			one slot of five takes four of five visits; a visit
 *			frees the block of a full slot or fills an empty one;
 *			a block is written when it is allocated and read before
 *			it is freed, all of it
 *
 * in millions of replacements or visits a second, all threads together.  A
 * fixed amount of work.
 *
 * Source: bench-malloc-thread of glibc, and alloc-test by I. Hare, after
 * their parameters.
 *
 * Usage: slots [scale [glibc|test [N ...]]]
 */
#include "tests/bench/bench.h"

#define GLIBC_SLOTS 1024
#define GLIBC_MIN   4
#define GLIBC_MAX   32768
#define NSIZES      8192 /* drawn in advance */
#define TEST_SLOTS  (1 << 18)

struct work {
	size_t nvisits; /* of a thread */
	unsigned nthreads;
	uint16_t size[NSIZES];
};

/*
 * The density of a size x is proportional to 1 / x^2.  Its distribution
 * function is therefore linear in 1 / x.
 */
static void
glibc_sizes(struct work *work)
{
	uint64_t seed = bench_seed(0);

	for (size_t i = 0; i < NSIZES; i++) {
		double u = (double)(bench_random(&seed) >> 11) / (1ULL << 53);

		work->size[i] =
		    (uint16_t)(1 / (u / GLIBC_MAX + (1 - u) / GLIBC_MIN));
	}
}

static void
glibc_run(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	void **slot = bench_pages(GLIBC_SLOTS * sizeof(*slot));

	for (size_t i = 0; i < work->nvisits; i++) {
		uint64_t r = bench_random(&thread->seed);
		size_t at = (r >> 20) % GLIBC_SLOTS;

		free(slot[at]);
		slot[at] = malloc(work->size[(r >> 40) % NSIZES]);
		if (slot[at] == NULL)
			bench_die("malloc");
		bench_keep(slot[at]);
	}
	for (size_t i = 0; i < GLIBC_SLOTS; i++)
		free(slot[i]);
	munmap(slot, GLIBC_SLOTS * sizeof(*slot));
	bench_did(thread, work->nvisits);
}

struct block {
	unsigned char *bytes;
	size_t n;
};

/* Up to 8, 16, 32 ... 1024 bytes. */
static size_t
test_size(uint64_t *seed)
{
	uint64_t r = bench_random(seed) >> 20;
	unsigned shift = (unsigned)__builtin_ctzll(r | 1 << 7) + 2;
	size_t power = (size_t)1 << shift;

	return power + 1 + (r >> 8) % power;
}

/* Four of five from the first fifth of the slots, and so on within it. */
static size_t
test_slot(uint64_t *seed, size_t nslots)
{
	size_t low = 0, n = nslots;

	while (n > 5) {
		if (bench_between(seed, 1, 5) == 5) {
			low = n / 5;
			break;
		}
		n /= 5;
	}
	return bench_between(seed, low, n - 1);
}

static size_t
test_visit(struct block *block, uint64_t *seed)
{
	size_t sum = 0;

	if (block->bytes == NULL) {
		block->n = test_size(seed);
		block->bytes = bench_alloc(block->n);
		memset(block->bytes, (int)block->n, block->n);
		return 0;
	}
	for (size_t i = 0; i < block->n; i++)
		sum += block->bytes[i];
	if (sum != block->n * (unsigned char)block->n) {
		fprintf(stderr, "slots: a block was overwritten\n");
		abort();
	}
	free(block->bytes);
	block->bytes = NULL;
	return sum;
}

static void
test_run(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	size_t nslots = TEST_SLOTS / work->nthreads;
	struct block *blocks = bench_pages(nslots * sizeof(*blocks));

	/* Half of the slots are full at the beginning. */
	for (size_t i = 0; i < nslots; i += 2)
		test_visit(&blocks[i], &thread->seed);
	for (size_t i = 0; i < work->nvisits; i++)
		test_visit(
		    &blocks[test_slot(&thread->seed, nslots)], &thread->seed);
	for (size_t i = 0; i < nslots; i++)
		free(blocks[i].bytes);
	munmap(blocks, nslots * sizeof(*blocks));
	bench_did(thread, work->nvisits);
}

static void
measure(bool test, unsigned nthreads, double scale)
{
	struct work *work = bench_pages(sizeof(*work));
	struct bench_group group;

	work->nthreads = nthreads;
	work->nvisits = bench_count((test ? 1e7 : 4e7) / nthreads, scale);
	glibc_sizes(work);
	group = bench_threads(nthreads, test ? test_run : glibc_run, work, 0);
	bench_print(bench_mops(&group), "Mops/s", "%s.%u",
	    test ? "alloc-test" : "glibc-thread", nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	bool test = argc > 2 && strcmp(argv[2], "test") == 0;

	for (int i = 3; i < argc; i++)
		measure(test, (unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 3) {
		measure(test, 1, scale);
		measure(test, 2, scale);
	}
	return 0;
}
