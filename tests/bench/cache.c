/*
 * cache.c - false sharing: do blocks of two threads lie in one cache line?
 *
 *	cache.thrash	each thread allocates a block of 8 bytes, writes it
 *			many times, frees it, and so on
 *	cache.scratch	each first frees a block that the main thread
 *			allocated in a row with the other's
 *
 * in processor time of a write, in ns, with two threads: many times that of
 * the best where lines are shared.  A fixed amount of work.
 *
 * Source: Berger, McKinley, Blumofe and Wilson, "Hoard", ASPLOS 2000, after
 * its description.
 *
 * Usage: cache [scale [thrash|scratch]]
 */
#include "tests/bench/bench.h"

#define NTHREADS 2
#define NWRITES  20000
#define BYTES    8

struct work {
	void *given[NTHREADS]; /* NULL: nothing to free first */
	size_t nblocks;
};

static void
run(struct bench_thread *thread)
{
	struct work *work = thread->shared;

	free(work->given[thread->number]);
	for (size_t i = 0; i < work->nblocks; i++) {
		volatile char *block = bench_alloc(BYTES);

		for (int j = 0; j < NWRITES; j++)
			block[j % BYTES]++;
		free((void *)block);
	}
}

static void
measure(const char *name, bool give, double scale)
{
	struct work work = {.nblocks = bench_count(8000, scale)};
	double start;

	for (int i = 0; give && i < NTHREADS; i++)
		work.given[i] = bench_alloc(BYTES);
	start = bench_cpu_ns();
	bench_threads(NTHREADS, run, &work, 0);
	bench_print((bench_cpu_ns() - start) /
			((double)work.nblocks * NTHREADS * NWRITES),
	    "ns", "cache.%s", name);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	if (argc <= 2 || strcmp(argv[2], "thrash") == 0)
		measure("thrash", /* give */ false, scale);
	if (argc <= 2 || strcmp(argv[2], "scratch") == 0)
		measure("scratch", /* give */ true, scale);
	return 0;
}
