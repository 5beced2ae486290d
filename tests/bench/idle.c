/*
 * idle.c - memory that stays resident for many idle threads
 *
 * 1000 threads allocate 1000 blocks each, of 16 to 1023 bytes, wait for each
 * other, free them, sleep, and end.
 *
 *	idle.started	resident memory before the first block, in MiB
 *	idle.live	with all blocks allocated
 *	idle.freed	right after all were freed
 *	idle.2s		two seconds later
 *	idle.ended	after the threads have ended
 *	idle.time	processor time of it all, in ms
 *
 * Source: thread pools of servers, most of which wait most of the time.
 *
 * Usage: idle [scale]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 1000
#define STACK   (64 * 1024)

static pthread_barrier_t barrier;

/* The main thread measures between two of these. */
static void
meet(void)
{
	pthread_barrier_wait(&barrier);
}

static void *
run(void *arg)
{
	uint64_t seed = bench_seed((size_t)arg);
	void **first = NULL;

	meet();
	for (int i = 0; i < NBLOCKS; i++) {
		size_t bytes = bench_between(&seed, 16, 1023);
		void **block = memset(bench_alloc(bytes), 1, bytes);

		*block = first;
		first = block;
	}
	meet();
	meet();
	while (first != NULL) {
		void **block = first;

		first = *block;
		free(block);
	}
	meet();
	meet();
	return NULL;
}

static void
resident(const char *name)
{
	bench_print(bench_rss_mib(), "MiB", "idle.%s", name);
}

static void
start(pthread_t *threads, size_t nthreads)
{
	pthread_attr_t small;

	pthread_barrier_init(&barrier, NULL, (unsigned)nthreads + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (size_t i = 0; i < nthreads; i++) {
		if (pthread_create(&threads[i], &small, run, (void *)i) != 0)
			bench_die("pthread_create");
	}
	pthread_attr_destroy(&small);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	size_t nthreads = bench_count(1000, scale);
	pthread_t *threads = bench_pages(nthreads * sizeof(*threads));
	double time = bench_cpu_ns();

	start(threads, nthreads);
	resident("started");
	meet();
	meet();
	resident("live");
	meet();
	meet();
	resident("freed");
	bench_sleep_ns(2e9);
	resident("2s");
	meet();
	for (size_t i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	resident("ended");
	bench_print((bench_cpu_ns() - time) / 1e6, "ms", "idle.time");
	return 0;
}
