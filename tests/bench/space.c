/*
 * space.c - memory per block of one size, while all blocks are live
 *
 *	space.SIZE		resident memory by bytes asked for
 *	space.touch.SIZE	processor time of a malloc of a fresh block and
 *				of filling it, in ns
 *
 * 10 million blocks, or 600 MiB of them if that is less, each size in a child
 * process of its own.  The blocks themselves form the list, so the program has
 * no table of them.
 *
 * Source: arithmetic; the figure shows the cost of size classes and headers.
 *
 * Usage: space [scale [SIZE ...]]
 */
#include <sys/wait.h>

#include "tests/bench/bench.h"

#define MOST_BYTES (600.0 * BENCH_MIB)

static void
fill(size_t bytes, double scale)
{
	double most = MOST_BYTES / (double)bytes;
	size_t n = bench_count(most < 10e6 ? most : 10e6, scale);
	double base = bench_rss_mib(), start = bench_cpu_ns(), end;
	void **last = NULL;

	for (size_t i = 0; i < n; i++) {
		void **block = memset(bench_alloc(bytes), 1, bytes);

		*block = last;
		last = block;
	}
	end = bench_cpu_ns();
	bench_keep(last);
	bench_print((bench_rss_mib() - base) * BENCH_MIB / (double)(n * bytes),
	    "x", "space.%zu", bytes);
	bench_print((end - start) / (double)n, "ns", "space.touch.%zu", bytes);
}

static void
measure(size_t bytes, double scale)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		fill(bytes, scale);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		bench_die("space: child failed");
}

int
main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 16, 24, 40, 64, 100, 200, 500, 1000};
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure(strtoul(argv[i], NULL, 10), scale);
	for (size_t i = 0; argc <= 2 && i < sizeof(sizes) / sizeof(*sizes); i++)
		measure(sizes[i], scale);
	return 0;
}
