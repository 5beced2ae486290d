/*
 * frag.c - fragmentation: fill, free most at random, fill with another size
 *
 * 2 million blocks of 16 to 1023 bytes; 90 % of them freed at random; 100 MiB
 * of blocks of 64 bytes; all of it freed; two seconds of idleness; 2000 calls.
 *
 *	frag.filled, frag.freed90, frag.refilled, frag.freed, frag.idle,
 *	frag.calls	resident memory after each of these, in MiB
 *	frag.overhead	resident memory after refilling by bytes asked for
 *	frag.time.*	processor time of the steps, in ms
 *
 * All blocks are written whole.  The program subtracts the memory of its own
 * tables.  A fixed amount of work.
 *
 * Source: Wilson, Johnstone, Neely and Boles, "Dynamic Storage Allocation: A
 * Survey and Critical Review", 1995, on the memory that stays resident after a
 * peak.
 *
 * Usage: frag [scale]
 */
#include "tests/bench/bench.h"

struct heap {
	void **block;
	uint16_t *bytes;
	size_t nblocks;
	void **small;
	size_t nsmall;
	size_t live; /* bytes asked for and not freed */
	double base; /* MiB resident before */
	double start;
	uint64_t seed;
};

/* Ends a step: prints its time, and the resident memory after it. */
static void
step(struct heap *heap, const char *name, bool timed)
{
	if (timed)
		bench_print((bench_cpu_ns() - heap->start) / 1e6, "ms",
		    "frag.time.%s", name);
	bench_print(bench_rss_mib() - heap->base, "MiB", "frag.%s", name);
	heap->start = bench_cpu_ns();
}

static void *
filled(size_t bytes)
{
	return memset(bench_alloc(bytes), 1, bytes);
}

static void
fill(struct heap *heap)
{
	for (size_t i = 0; i < heap->nblocks; i++) {
		size_t bytes = bench_between(&heap->seed, 16, 1023);

		heap->block[i] = filled(bytes);
		heap->bytes[i] = (uint16_t)bytes;
		heap->live += bytes;
	}
}

/* Shuffles, and frees the first nine tenths. */
static void
free_most(struct heap *heap)
{
	size_t nfreed = heap->nblocks - heap->nblocks / 10;

	for (size_t i = 0; i < nfreed; i++) {
		size_t j = bench_between(&heap->seed, i, heap->nblocks - 1);

		free(heap->block[j]);
		heap->live -= heap->bytes[j];
		heap->block[j] = heap->block[i];
		heap->bytes[j] = heap->bytes[i];
		heap->block[i] = NULL;
	}
}

static void
refill(struct heap *heap)
{
	for (size_t i = 0; i < heap->nsmall; i++)
		heap->small[i] = filled(64);
	heap->live += heap->nsmall * 64;
}

static void
free_all(struct heap *heap)
{
	for (size_t i = 0; i < heap->nblocks; i++)
		free(heap->block[i]);
	for (size_t i = 0; i < heap->nsmall; i++)
		free(heap->small[i]);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	struct heap heap = {.nblocks = bench_count(2e6, scale),
	    .nsmall = bench_count(100 * 16384, scale),
	    .seed = bench_seed(0)};

	heap.block = bench_pages(heap.nblocks * sizeof(*heap.block));
	heap.bytes = bench_pages(heap.nblocks * sizeof(*heap.bytes));
	heap.small = bench_pages(heap.nsmall * sizeof(*heap.small));
	heap.base = bench_rss_mib();
	heap.start = bench_cpu_ns();
	fill(&heap);
	step(&heap, "filled", /* timed */ true);
	free_most(&heap);
	step(&heap, "freed90", /* timed */ true);
	refill(&heap);
	step(&heap, "refilled", /* timed */ true);
	bench_print(
	    (bench_rss_mib() - heap.base) * BENCH_MIB / (double)heap.live, "x",
	    "frag.overhead");
	heap.start = bench_cpu_ns();
	free_all(&heap);
	step(&heap, "freed", /* timed */ true);
	bench_sleep_ns(2e9);
	step(&heap, "idle", /* timed */ false);
	for (int i = 0; i < 2000; i++)
		free(filled(bench_between(&heap.seed, 16, 1023)));
	step(&heap, "calls", /* timed */ false);
	return 0;
}
