/*
 * micro.c - one thread: malloc and free in pairs and in batches
 *
 *	pair.SIZE		a malloc and the free of it
 *	batch.lifo.SIZE		1000 mallocs, then their frees, the last first
 *	batch.rand.SIZE		the same, freed in random order
 *
 * in ns a malloc and a free, the first byte of each block written.  SIZE mix
 * is 16 to 1023 bytes at random.
 *
 * Usage: micro [scale]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 1000

static const size_t pair_sizes[] = {
    16, 64, 256, 1000, 4096, 8192, 32768, 102400, 1048576, 4194304};
static const size_t batch_sizes[] = {16, 64, 256, 1024, 4096, 0};

struct batch {
	void *blocks[NBLOCKS];
	uint16_t sizes[NBLOCKS];
	uint16_t order[NBLOCKS]; /* in which they are freed */
};

static void
pairs(void *arg, size_t n)
{
	size_t bytes = *(size_t *)arg;

	for (size_t i = 0; i < n; i++)
		free(bench_alloc(bytes));
}

static void
batches(void *arg, size_t n)
{
	struct batch *batch = arg;

	while (n-- > 0) {
		for (size_t i = 0; i < NBLOCKS; i++)
			batch->blocks[i] = bench_alloc(batch->sizes[i]);
		for (size_t i = 0; i < NBLOCKS; i++)
			free(batch->blocks[batch->order[i]]);
	}
}

static void
batch_prepare(struct batch *batch, size_t bytes, bool shuffled)
{
	uint64_t seed = bench_seed(bytes);

	for (size_t i = 0; i < NBLOCKS; i++) {
		batch->sizes[i] =
		    (uint16_t)(bytes > 0 ? bytes
					 : bench_between(&seed, 16, 1023));
		batch->order[i] = (uint16_t)(NBLOCKS - 1 - i);
	}
	for (size_t i = NBLOCKS - 1; shuffled && i > 0; i--) {
		size_t j = bench_between(&seed, 0, i);
		uint16_t other = batch->order[j];

		batch->order[j] = batch->order[i];
		batch->order[i] = other;
	}
}

static void
batch_measure(size_t bytes, bool shuffled, double scale)
{
	static struct batch batch;
	const char *order = shuffled ? "rand" : "lifo";
	double ns;

	batch_prepare(&batch, bytes, shuffled);
	ns = bench_ns_each(batches, &batch, scale) / NBLOCKS;
	if (bytes > 0)
		bench_print(ns, "ns", "batch.%s.%zu", order, bytes);
	else
		bench_print(ns, "ns", "batch.%s.mix", order);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (size_t i = 0; i < sizeof(pair_sizes) / sizeof(*pair_sizes); i++) {
		size_t bytes = pair_sizes[i];

		bench_print(bench_ns_each(pairs, &bytes, scale), "ns",
		    "pair.%zu", bytes);
	}
	for (size_t i = 0; i < sizeof(batch_sizes) / sizeof(*batch_sizes);
	     i++) {
		batch_measure(batch_sizes[i], /* shuffled */ false, scale);
		batch_measure(batch_sizes[i], /* shuffled */ true, scale);
	}
	return 0;
}
