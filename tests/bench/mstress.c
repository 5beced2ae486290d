/*
 * mstress.c - blocks of many sizes with random lifetimes; other threads free
 * some of them
 *
 *	mstress.N	processor time of a block with N threads, in ns
 *	mstress.rate.N	millions of blocks a second
 *
 * A thread keeps a set of blocks and replaces them at random: most live for a
 * short time, some for a long time.  The thread exchanges every eighth block
 * for the block in a random slot of a table that all threads share.  Sizes are
 * 8 to 128 bytes for three blocks of four, up to 4 KiB for most of the rest,
 * and up to 256 KiB for a few.  The first and the last word of a block name
 * its writer; the freeing thread checks them.  The work of each thread is
 * divided into ten rounds, and each round starts new threads.  A fixed amount
 * of work.
 *
 * Source: the stress test that mimalloc has, after its description.
 *
 * Usage: mstress [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NSHORT  512
#define NLONG   4096
#define NSHARED 1024
#define NROUNDS 10

struct block {
	size_t nwords;
	uint64_t word[]; /* nwords of them, of which the last is a mark */
};

struct shared {
	struct block *_Atomic slot[NSHARED];
	size_t nblocks; /* for a thread to allocate in a round */
};

static struct block *
block_make(uint64_t *seed)
{
	uint64_t r = bench_random(seed);
	size_t most = r % 4 != 0 ? 16 : (r >> 2) % 128 != 0 ? 512 : 32768;
	size_t nwords = bench_between(seed, 1, most);
	struct block *block = bench_alloc((nwords + 1) * sizeof(uint64_t));

	block->nwords = nwords;
	block->word[nwords - 1] = nwords ^ 0x5555555555555555;
	return block;
}

static void
block_free(struct block *block)
{
	if (block != NULL && block->word[block->nwords - 1] !=
				 (block->nwords ^ 0x5555555555555555)) {
		fprintf(
		    stderr, "mstress: block %p overwritten\n", (void *)block);
		abort();
	}
	free(block);
}

static void
run(struct bench_thread *thread)
{
	struct shared *shared = thread->shared;
	struct block **kept = calloc(NSHORT + NLONG, sizeof(struct block *));

	if (kept == NULL)
		bench_die("calloc");
	for (size_t i = 0; i < shared->nblocks; i++) {
		uint64_t r = bench_random(&thread->seed);
		struct block *block = block_make(&thread->seed);
		size_t slot =
		    r % 8 != 0 ? (r >> 3) % NSHORT : NSHORT + (r >> 3) % NLONG;

		if ((r >> 32) % 8 == 0)
			block = atomic_exchange(
			    &shared->slot[(r >> 40) % NSHARED], block);
		block_free(kept[slot]);
		kept[slot] = block;
	}
	for (size_t i = 0; i < NSHORT + NLONG; i++)
		block_free(kept[i]);
	free(kept);
	bench_did(thread, shared->nblocks);
}

static void
measure(unsigned nthreads, double scale)
{
	struct shared *shared = bench_pages(sizeof(*shared));
	double start = bench_cpu_ns(), wall = bench_wall_ns();
	size_t ndone = 0;

	shared->nblocks = bench_count(500000.0 / nthreads, scale);
	for (int i = 0; i < NROUNDS; i++)
		ndone += bench_threads(nthreads, run, shared, 0).ndone;
	wall = bench_wall_ns() - wall;
	for (size_t i = 0; i < NSHARED; i++)
		block_free(shared->slot[i]);
	bench_print((bench_cpu_ns() - start) / (double)ndone, "ns",
	    "mstress.%u", nthreads);
	bench_print(
	    (double)ndone * 1e3 / wall, "Mops/s", "mstress.rate.%u", nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 2) {
		measure(1, scale);
		measure(4, scale);
		measure(16, scale);
	}
	return 0;
}
