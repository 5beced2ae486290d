/*
 * phase.c - the size that a program needs changes over time
 *
 * Fills 96 MiB with blocks of one size, frees them all, goes on with the next
 * size, through 16 sizes from 16 bytes to 64 KiB.
 *
 *	phase.peak	peak resident memory divided by the peak of live bytes
 *	phase.ns	processor time of 1 KiB allocated, filled and freed
 *
 * A fixed amount of work.
 *
 * Source: Wilson and others, "Dynamic Storage Allocation", 1995: programs go
 * through phases that differ in the sizes they use.
 *
 * Usage: phase [scale]
 */
#include "tests/bench/bench.h"

#define LIVE_BYTES (96.0 * BENCH_MIB)

static void
fill_and_free(size_t bytes, size_t n)
{
	void **last = NULL;

	for (size_t i = 0; i < n; i++) {
		void **block = memset(bench_alloc(bytes), 1, bytes);

		*block = last;
		last = block;
	}
	while (last != NULL) {
		void **block = last;

		last = *block;
		free(block);
	}
}

int
main(int argc, char **argv)
{
	static const size_t sizes[] = {16, 64, 256, 1024, 4096, 16384, 65536,
	    32, 128, 512, 2048, 8192, 32768, 100, 700, 3000};
	double scale = bench_start(argc, argv);
	double live = (double)bench_count(LIVE_BYTES, scale), all = 0;
	double base = bench_rss_mib(), start = bench_cpu_ns();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		fill_and_free(sizes[i], (size_t)live / sizes[i]);
		all += live;
	}
	bench_print((bench_cpu_ns() - start) / (all / 1024), "ns", "phase.ns");
	bench_print((bench_status_mib("VmHWM:") - base) * BENCH_MIB / live, "x",
	    "phase.peak");
	return 0;
}
