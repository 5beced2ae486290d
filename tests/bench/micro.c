/*
 * micro.c - one thread: malloc and free in pairs and in batches
 *
 *	pair.SIZE		a malloc and its free; the block is not written
 *	pair.SIZE.set		a pair; the whole block is written
 *	pair.SIZE.pages		a pair; one byte of each 4 KiB is written
 *	batch.200.SIZE		200 mallocs, then 200 frees in the same order
 *	batch.2000.SIZE		2000 mallocs, then 2000 frees in the same order
 *	batch.rand.SIZE		2000 mallocs, then 2000 frees in random order
 *
 * in ns a malloc and a free; in a batch the first byte of each block is
 * written.  SIZE mix is 16 to 1023 bytes at random.
 *
 * Source: the two extremes of use, last in first out at once, and sets.
 *
 * Usage: micro [scale]
 */
#include "tests/bench/bench.h"

#define NMOST 2000
#define PAGE  4096
#define LINE  64

enum written {
	NOTHING,
	PAGES,
	WHOLE
};

struct pair {
	size_t bytes;
	enum written written;
};

static const struct pair pair_list[] = {{16, NOTHING}, {16, WHOLE},
    {64, NOTHING}, {64, WHOLE}, {256, NOTHING}, {256, WHOLE}, {1000, NOTHING},
    {1000, WHOLE}, {4096, NOTHING}, {4096, WHOLE}, {8192, NOTHING},
    {32768, NOTHING}, {32768, WHOLE}, {102400, NOTHING}, {102400, PAGES},
    {1 << 20, NOTHING}, {4 << 20, NOTHING}, {4 << 20, PAGES}};
static const size_t batch_sizes[] = {16, 64, 256, 1000, 4096, 0};

struct batch {
	size_t nblocks;
	void *blocks[NMOST];
	uint16_t sizes[NMOST];
	uint16_t order[NMOST]; /* in which they are freed */
};

static void
pairs(void *arg, size_t n)
{
	const struct pair *pair = arg;

	while (n-- > 0) {
		void *block = malloc(pair->bytes);

		bench_keep(block);
		free(block);
	}
}

static void
pairs_whole(void *arg, size_t n)
{
	const struct pair *pair = arg;

	while (n-- > 0) {
		void *block = bench_alloc(pair->bytes);

		memset(block, (int)n, pair->bytes);
		bench_keep(block);
		free(block);
	}
}

static void
pairs_pages(void *arg, size_t n)
{
	const struct pair *pair = arg;

	while (n-- > 0) {
		char *block = bench_alloc(pair->bytes);

		/* Elsewhere in each page, for all to fit into the L1 cache. */
		for (size_t i = 0; i < pair->bytes; i += PAGE)
			block[i + i / PAGE * LINE % PAGE] = 1;
		bench_keep(block);
		free(block);
	}
}

static void
pair_measure(struct pair pair, double scale)
{
	static const struct {
		bench_work *work;
		const char *name;
	} way[] = {[NOTHING] = {pairs, ""},
	    [PAGES] = {pairs_pages, ".pages"},
	    [WHOLE] = {pairs_whole, ".set"}};
	double ns = bench_ns_each(way[pair.written].work, &pair, scale);

	bench_print(ns, "ns", "pair.%zu%s", pair.bytes, way[pair.written].name);
}

static void
batches(void *arg, size_t n)
{
	struct batch *batch = arg;

	while (n-- > 0) {
		for (size_t i = 0; i < batch->nblocks; i++)
			batch->blocks[i] = bench_alloc(batch->sizes[i]);
		for (size_t i = 0; i < batch->nblocks; i++)
			free(batch->blocks[batch->order[i]]);
	}
}

static void
shuffle(struct batch *batch, uint64_t *seed)
{
	for (size_t i = batch->nblocks - 1; i > 0; i--) {
		size_t j = bench_between(seed, 0, i);
		uint16_t other = batch->order[j];

		batch->order[j] = batch->order[i];
		batch->order[i] = other;
	}
}

static void
batch_prepare(struct batch *batch, size_t nblocks, size_t bytes, bool shuffled)
{
	uint64_t seed = bench_seed(bytes);

	batch->nblocks = nblocks;
	for (size_t i = 0; i < nblocks; i++) {
		size_t any = bench_between(&seed, 16, 1023);

		batch->sizes[i] = (uint16_t)(bytes > 0 ? bytes : any);
		batch->order[i] = (uint16_t)i;
	}
	if (shuffled)
		shuffle(batch, &seed);
}

static void
batch_measure(size_t nblocks, size_t bytes, bool shuffled, double scale)
{
	static struct batch batch;
	char order[24] = "rand", size[24] = "mix";
	double ns;

	batch_prepare(&batch, nblocks, bytes, shuffled);
	ns = bench_ns_each(batches, &batch, scale) / (double)nblocks;
	if (!shuffled)
		snprintf(order, sizeof(order), "%zu", nblocks);
	if (bytes > 0)
		snprintf(size, sizeof(size), "%zu", bytes);
	bench_print(ns, "ns", "batch.%s.%s", order, size);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (size_t i = 0; i < sizeof(pair_list) / sizeof(*pair_list); i++)
		pair_measure(pair_list[i], scale);
	for (size_t i = 0; i < sizeof(batch_sizes) / sizeof(*batch_sizes);
	     i++) {
		size_t bytes = batch_sizes[i];

		batch_measure(200, bytes, /* shuffled */ false, scale);
		batch_measure(NMOST, bytes, /* shuffled */ false, scale);
		batch_measure(NMOST, bytes, /* shuffled */ true, scale);
	}
	return 0;
}
