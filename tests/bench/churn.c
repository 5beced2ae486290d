/*
 * churn.c - many short threads
 *
 *	churn.thread		processor time of a thread that allocates 64
 *				blocks of 16 to 1023 bytes, frees half of them
 *				and half of those of a thread before it, in us
 *	churn.growth		growth of resident memory meanwhile, in MiB
 *
 * Four threads live at a time.  A fixed amount of work.
 *
 * Source: programs that start a thread for each task or connection.
 *
 * Usage: churn [scale]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 64
#define NALIVE  4

struct lane {
	pthread_t id;
	void *block[NBLOCKS];
	uint64_t seed;
} BENCH_ALIGNED;

static void *
live(void *arg)
{
	struct lane *lane = arg;

	for (size_t i = 0; i < NBLOCKS; i++) {
		/* Those of the thread before stand in the odd places. */
		free(lane->block[i]);
		lane->block[i] =
		    bench_alloc(bench_between(&lane->seed, 16, 1023));
	}
	for (size_t i = 0; i < NBLOCKS; i += 2) {
		free(lane->block[i]);
		lane->block[i] = NULL;
	}
	return NULL;
}

static void
churn(struct lane *lanes, size_t nthreads)
{
	for (size_t i = 0; i < nthreads; i++) {
		struct lane *lane = &lanes[i % NALIVE];

		if (i >= NALIVE)
			pthread_join(lane->id, NULL);
		if (pthread_create(&lane->id, NULL, live, lane) != 0)
			bench_die("pthread_create");
	}
	for (size_t i = 0; i < NALIVE; i++)
		pthread_join(lanes[i].id, NULL);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv), start, before;
	size_t nthreads = NALIVE * bench_count(4000, scale);
	struct lane *lanes = bench_pages(NALIVE * sizeof(*lanes));

	for (size_t i = 0; i < NALIVE; i++)
		lanes[i].seed = bench_seed(i);
	churn(lanes, 16 * NALIVE);
	before = bench_rss_mib();
	start = bench_cpu_ns();
	churn(lanes, nthreads);
	bench_print((bench_cpu_ns() - start) / 1e3 / (double)nthreads, "us",
	    "churn.thread");
	bench_print(bench_rss_mib() - before, "MiB+", "churn.growth");
	return 0;
}
