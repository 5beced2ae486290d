/*
 * threads.c - N threads that share nothing
 *
 *	threads.pair.N	64 bytes, malloc and free of it
 *	threads.set.N	each replaces at random one of its 256 blocks of 16 to
 *			1015 bytes
 *
 * in millions of mallocs with their frees a second, all threads together.
 *
 * Source: Berger and others, "Hoard", ASPLOS 2000 (threadtest), after its
 * description.
 *
 * Usage: threads [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NSLOTS 256

static void
pairs(struct bench_thread *thread)
{
	while (!bench_stopped(thread)) {
		for (int i = 0; i < 256; i++)
			free(bench_alloc(64));
		bench_did(thread, 256);
	}
}

static void
working_set(struct bench_thread *thread)
{
	void *slots[NSLOTS] = {NULL};

	while (!bench_stopped(thread)) {
		for (int i = 0; i < 256; i++) {
			uint64_t r = bench_random(&thread->seed);
			size_t slot = r % NSLOTS;

			free(slots[slot]);
			slots[slot] = bench_alloc(16 + (r >> 32) % 1000);
		}
		bench_did(thread, 256);
	}
	for (int i = 0; i < NSLOTS; i++)
		free(slots[i]);
}

static void
measure(unsigned nthreads, double scale)
{
	/* With many, each has to have had its turn more than once. */
	double ns = (nthreads > 8 ? 400e6 : 200e6) * scale;
	struct bench_group group = bench_threads(nthreads, pairs, NULL, ns);

	bench_print(bench_mops(&group), "Mops/s", "threads.pair.%u", nthreads);
	group = bench_threads(nthreads, working_set, NULL, ns);
	bench_print(bench_mops(&group), "Mops/s", "threads.set.%u", nthreads);
}

int
main(int argc, char **argv)
{
	static const unsigned numbers[] = {1, 2, 16, 64};
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	for (size_t i = 0; argc <= 2 && i < sizeof(numbers) / sizeof(*numbers);
	     i++)
		measure(numbers[i], scale);
	return 0;
}
