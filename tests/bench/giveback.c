/*
 * giveback.c - is memory released to the kernel when it is no longer needed?
 *
 *	giveback.multi		resident memory above that at the start, in
 *				MiB: a process with a second thread, which
 *				sleeps, two seconds after the last free
 *	giveback.single		without another thread, after the next 2000
 *				calls, each a malloc or a free
 *	giveback.*.freed	right after the last free
 *	giveback.*.time		processor time of allocating, filling and
 *				freeing, in ms, without the later steps
 *
 * 1 GiB of blocks of 16 to 512 bytes is allocated and freed in the order of
 * allocation.  A fixed amount of work.
 *
 * Source: the most frequent complaint of users of all allocators.
 *
 * Usage: giveback [scale [multi|single]]
 */
#include "tests/bench/bench.h"

#define BYTES 1073741824.0
#define LEAST 16
#define MOST  512

static atomic_bool ended;

static void *
sleeper(void *arg)
{
	while (!atomic_load(&ended))
		bench_sleep_ns(50e6);
	return arg;
}

/* The blocks are the list of them; returns the last. */
static void
fill_and_free(double bytes, uint64_t *seed)
{
	void **first = NULL, **last = NULL;

	while (bytes > 0) {
		size_t size = bench_between(seed, LEAST, MOST);
		void **block = memset(bench_alloc(size), 1, size);

		*block = NULL;
		if (last == NULL)
			first = block;
		else
			*last = block;
		last = block;
		bytes -= (double)size;
	}
	while (first != NULL) {
		void **next = *first;

		free(first);
		first = next;
	}
}

static void
calls(int n, uint64_t *seed)
{
	for (int i = 0; i < n / 2; i++)
		free(bench_alloc(bench_between(seed, LEAST, MOST)));
}

static void
measure(const char *kind, bool multi, double scale)
{
	uint64_t seed = bench_seed(0);
	pthread_t thread;
	double base, start;

	if (multi && pthread_create(&thread, NULL, sleeper, NULL) != 0)
		bench_die("pthread_create");
	calls(2000, &seed);
	base = bench_rss_mib();
	start = bench_cpu_ns();
	fill_and_free(BYTES * scale, &seed);
	bench_print(
	    (bench_cpu_ns() - start) / 1e6, "ms", "giveback.%s.time", kind);
	bench_print(bench_rss_mib() - base, "MiB+", "giveback.%s.freed", kind);
	if (multi)
		bench_sleep_ns(2e9);
	else
		calls(2000, &seed);
	bench_print(bench_rss_mib() - base, "MiB+", "giveback.%s", kind);
	atomic_store(&ended, true);
	if (multi)
		pthread_join(thread, NULL);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	const char *kind = argc > 2 ? argv[2] : "single";

	measure(kind, strcmp(kind, "multi") == 0, scale);
	return 0;
}
