/*
 * sh.c - batches of mixed sizes, freed in mixed order, some of them late
 *
 *	sh.6.N		N threads; all blocks of a batch have one size
 *	sh.8.N		each block has its own, and they are freed at random
 *
 * in millions of blocks a second.  A batch has 64 to 512 blocks of 1 to 1000
 * bytes, the more the smaller they are.  Of each batch a quarter is kept: it
 * takes the places of blocks that were kept long ago, which are freed.  Of the
 * rest of a batch of sh.6 one half is freed in the order of allocation, the
 * other backwards.  A fixed amount of work.
 *
 * Source: the idea of MicroQuill's SmartHeap tests sh6bench and sh8bench, as
 * the collections of allocator benchmarks describe them.
 *
 * Usage: sh [scale [6|8 [N ...]]]
 */
#include "tests/bench/bench.h"

#define NMOST 512
#define NKEPT 20000
#define MOST  1000

struct work {
	bool mixed; /* sizes within a batch */
	size_t nbatches;
};

struct batch {
	void *block[NMOST];
	size_t nblocks;
};

/* Small ones are the more likely. */
static size_t
some_size(uint64_t *seed)
{
	size_t most = bench_between(seed, 1, MOST);

	return bench_between(seed, 1, most);
}

static void
batch_fill(struct batch *batch, bool mixed, uint64_t *seed)
{
	size_t bytes = some_size(seed);

	batch->nblocks = 64 + (NMOST - 64) * (MOST - bytes) / MOST;
	for (size_t i = 0; i < batch->nblocks; i++)
		batch->block[i] = bench_alloc(mixed ? some_size(seed) : bytes);
}

/* Every fourth goes to the places after *next. */
static void
keep_some(struct batch *batch, void **kept, size_t *next)
{
	for (size_t i = 0; i < batch->nblocks; i += 4) {
		void *old = kept[*next];

		kept[*next] = batch->block[i];
		batch->block[i] = old;
		*next = (*next + 1) % NKEPT;
	}
}

static void
free_at_random(struct batch *batch, uint64_t *seed)
{
	for (size_t left = batch->nblocks; left > 0; left--) {
		size_t i = bench_between(seed, 0, left - 1);

		free(batch->block[i]);
		batch->block[i] = batch->block[left - 1];
	}
}

static void
free_halves(struct batch *batch)
{
	size_t half = batch->nblocks / 2;

	for (size_t i = 0; i < half; i++)
		free(batch->block[i]);
	for (size_t i = batch->nblocks; i > half; i--)
		free(batch->block[i - 1]);
}

static void
run(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	void **kept = bench_pages(NKEPT * sizeof(*kept));
	struct batch batch;
	size_t next = 0;

	for (size_t i = 0; i < work->nbatches; i++) {
		batch_fill(&batch, work->mixed, &thread->seed);
		bench_did(thread, batch.nblocks);
		keep_some(&batch, kept, &next);
		if (work->mixed)
			free_at_random(&batch, &thread->seed);
		else
			free_halves(&batch);
	}
	for (size_t i = 0; i < NKEPT; i++)
		free(kept[i]);
	munmap(kept, NKEPT * sizeof(*kept));
}

static void
measure(unsigned kind, unsigned nthreads, double scale)
{
	struct work work = {.mixed = kind == 8,
	    .nbatches = bench_count(400000.0 / nthreads, scale)};
	struct bench_group group = bench_threads(nthreads, run, &work, 0);

	bench_print(bench_mops(&group), "Mops/s", "sh.%u.%u", kind, nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	unsigned kind = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 6;

	for (int i = 3; i < argc; i++)
		measure(kind, (unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 3)
		measure(kind, 2, scale);
	return 0;
}
