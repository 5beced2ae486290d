/*
 * malloc_large.c - large blocks of changing sizes, each filled with zeros
 *
 *	malloc-large	processor time of a block, in us
 *
 * One of 20 blocks, chosen at random, is freed and replaced by another of 5
 * to 25 MiB.  A fixed amount of work.
 *
 * Source: malloc-large of the collections of allocator benchmarks, after its
 * parameters.
 *
 * Usage: malloc_large [scale]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 20
#define LEAST   ((size_t)5 << 20)
#define MOST    ((size_t)25 << 20)

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	size_t n = bench_count(700, scale);
	void *block[NBLOCKS] = {NULL};
	uint64_t seed = bench_seed(0);
	double start = bench_cpu_ns();

	for (size_t i = 0; i < n; i++) {
		size_t at = bench_between(&seed, 0, NBLOCKS - 1);
		size_t bytes = bench_between(&seed, LEAST, MOST);

		/* As "new" does: the old block lives until the new is there. */
		void *fresh = bench_alloc(bytes);

		memset(fresh, 0, bytes);
		bench_keep(fresh);
		free(block[at]);
		block[at] = fresh;
	}
	for (size_t i = 0; i < NBLOCKS; i++)
		free(block[i]);
	bench_print(
	    (bench_cpu_ns() - start) / 1e3 / (double)n, "us", "malloc-large");
	return 0;
}
