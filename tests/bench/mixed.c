/*
 * mixed.c - one thread replaces blocks of many sizes at random
 *
 *	mixed.LEAST-MOST.LIVE		ns for a free and a malloc
 *	mixed.LEAST-MOST.LIVE.rss	resident memory afterwards, for each
 *					byte that is live
 *
 * LIVE blocks have sizes from LEAST to MOST KiB, distributed evenly.  Each step
 * frees one of them and allocates another size; the first byte of each block
 * is written.  Every size class gains and loses blocks at random, so a cache
 * that has few of a class is often empty or full.  For the memory, more blocks
 * are replaced, and every page of them is written.
 *
 * Source: the sizes of buffers in servers, from one page of text to a large
 * message; mimalloc-bench has similar programs for smaller blocks.
 *
 * Usage: mixed [scale [LEAST [MOST [LIVE]]]]
 */
#include "tests/bench/bench.h"

#define KIB      1024
#define PAGE     4096
#define LIVE_MAX 100000

/* Replacements of each block for the memory. */
#define WRITTEN 20

struct mixed {
	char **blocks; /* outside the heap */
	uint32_t *bytes;
	size_t nblocks;
	size_t least, most;
	size_t live; /* bytes */
	uint64_t seed;
};

static void
replace(struct mixed *mixed, size_t i)
{
	size_t bytes = bench_between(&mixed->seed, mixed->least, mixed->most);

	free(mixed->blocks[i]);
	mixed->live += bytes - mixed->bytes[i];
	mixed->blocks[i] = bench_alloc(bytes);
	mixed->bytes[i] = (uint32_t)bytes;
}

static void
replace_some(void *arg, size_t n)
{
	struct mixed *mixed = arg;

	while (n-- > 0)
		replace(
		    mixed, bench_between(&mixed->seed, 0, mixed->nblocks - 1));
}

/* Returns the growth of resident memory for each byte that is live. */
static double
replace_written(struct mixed *mixed, double rss)
{
	for (size_t n = WRITTEN * mixed->nblocks; n > 0; n--) {
		size_t i = bench_between(&mixed->seed, 0, mixed->nblocks - 1);

		replace(mixed, i);
		for (size_t at = 0; at < mixed->bytes[i]; at += PAGE)
			mixed->blocks[i][at] = 1;
	}
	return (bench_rss_mib() - rss) * BENCH_MIB / (double)mixed->live;
}

static void
measure(size_t least, size_t most, size_t nblocks, double scale)
{
	struct mixed mixed = {.blocks = bench_pages(nblocks * sizeof(char *)),
	    .bytes = bench_pages(nblocks * sizeof(uint32_t)),
	    .nblocks = nblocks,
	    .least = least * KIB,
	    .most = most * KIB,
	    .seed = bench_seed(least)};
	double ns, rss = bench_rss_mib();

	for (size_t i = 0; i < nblocks; i++)
		replace(&mixed, i);
	ns = bench_ns_each(replace_some, &mixed, scale);
	bench_print(ns, "ns", "mixed.%zu-%zu.%zu", least, most, nblocks);
	bench_print(replace_written(&mixed, rss), "x", "mixed.%zu-%zu.%zu.rss",
	    least, most, nblocks);
}

static size_t
argument(int argc, char **argv, int i, size_t otherwise)
{
	size_t value = argc > i ? strtoul(argv[i], NULL, 10) : otherwise;

	if (value > 0 && value <= LIVE_MAX)
		return value;
	fprintf(stderr, "usage: mixed [scale [LEAST [MOST [LIVE]]]]\n");
	exit(2);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	measure(argument(argc, argv, 2, 1), argument(argc, argv, 3, 64),
	    argument(argc, argv, 4, 200), scale);
	return 0;
}
