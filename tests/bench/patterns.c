/*
 * patterns.c - N threads that each repeat one pattern
 *
 *	private	one of 64 blocks of 16 to 527 bytes is replaced
 *	burst	4096 blocks of 64 bytes, then all are freed
 *	burst4k	512 blocks of 4 KiB, then all are freed
 *	sizes	2048 blocks of 16 to 4095 bytes, then all are freed
 *	large	one of 16 blocks of 32 to 544 KiB is replaced
 *	huge	one block of 2 to 6 MiB
 *	shared	one of 65,536 blocks of 32 to 159 bytes, which all threads
 *		share, is replaced
 *	spawn	a thread that allocates and frees 100 blocks is started and
 *		joined; counts threads
 *
 * patterns.PATTERN.N is in millions of mallocs with their frees a second, all
 * threads together, and patterns.PATTERN.peak.N the most memory so far.  The
 * first byte of each block is written, and the last one of those in slots.
 *
 * Usage: patterns scale PATTERN N ...
 */
#include "tests/bench/bench.h"

#define NSHARED 65536
#define MOST    4096

static void *shared[NSHARED]; /* [atomic] */

static void *
alloc_both_ends(size_t bytes)
{
	char *block = bench_alloc(bytes);

	block[bytes - 1] = 1;
	return block;
}

/* Replaces blocks of low to high bytes in n slots. */
static void
replace(struct bench_thread *thread, unsigned n, size_t low, size_t high)
{
	void *slots[64] = {NULL};

	while (!bench_stopped(thread)) {
		for (int i = 0; i < 64; i++) {
			uint64_t r = bench_random(&thread->seed);
			size_t slot = r % n;

			free(slots[slot]);
			slots[slot] =
			    alloc_both_ends(low + (r >> 32) % (high - low + 1));
		}
		bench_did(thread, 64);
	}
	for (unsigned i = 0; i < n; i++)
		free(slots[i]);
}

static void private(struct bench_thread *thread)
{
	replace(thread, 64, 16, 527);
}

static void
large(struct bench_thread *thread)
{
	replace(thread, 16, 32 << 10, 544 << 10);
}

static void
huge(struct bench_thread *thread)
{
	while (!bench_stopped(thread)) {
		size_t bytes = bench_between(&thread->seed, 2 << 20, 6 << 20);

		free(alloc_both_ends(bytes));
		bench_did(thread, 1);
	}
}

/* Allocates n blocks and frees them; bytes is 0 for many sizes. */
static void
bursts(struct bench_thread *thread, unsigned n, size_t bytes)
{
	void *blocks[MOST];

	while (!bench_stopped(thread)) {
		for (unsigned i = 0; i < n; i++) {
			size_t size = bytes;

			if (size == 0) {
				uint64_t r = bench_random(&thread->seed);

				size = (size_t)16 << (r & 7);
				size += (r >> 32) % size;
			}
			blocks[i] = bench_alloc(size);
		}
		for (unsigned i = 0; i < n; i++)
			free(blocks[i]);
		bench_did(thread, n);
	}
}

static void
burst(struct bench_thread *thread)
{
	bursts(thread, MOST, 64);
}

static void
burst4k(struct bench_thread *thread)
{
	bursts(thread, 512, 4096);
}

static void
sizes(struct bench_thread *thread)
{
	bursts(thread, 2048, 0);
}

static void
share(struct bench_thread *thread)
{
	while (!bench_stopped(thread)) {
		for (int i = 0; i < 64; i++) {
			uint64_t r = bench_random(&thread->seed);
			void *block = bench_alloc(32 + (r >> 32) % 128);

			free(__atomic_exchange_n(
			    &shared[r % NSHARED], block, __ATOMIC_ACQ_REL));
		}
		bench_did(thread, 64);
	}
}

static void *
short_life(void *arg)
{
	void *blocks[100];

	for (size_t i = 0; i < 100; i++)
		blocks[i] = bench_alloc(16 + 8 * i);
	for (size_t i = 0; i < 100; i++)
		free(blocks[i]);
	return arg;
}

static void
spawn(struct bench_thread *thread)
{
	while (!bench_stopped(thread)) {
		pthread_t id;

		if (pthread_create(&id, NULL, short_life, NULL) != 0)
			bench_die("pthread_create");
		pthread_join(id, NULL);
		bench_did(thread, 1);
	}
}

static const struct pattern {
	const char *name;
	void (*run)(struct bench_thread *);
} patterns[] = {{"private", private}, {"burst", burst}, {"burst4k", burst4k},
    {"sizes", sizes}, {"large", large}, {"huge", huge}, {"shared", share},
    {"spawn", spawn}};

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	const struct pattern *pattern = patterns;
	const struct pattern *end =
	    patterns + sizeof(patterns) / sizeof(*patterns);

	while (argc > 3 && pattern < end && strcmp(pattern->name, argv[2]) != 0)
		pattern++;
	if (argc <= 3 || pattern == end) {
		fprintf(stderr, "usage: patterns scale PATTERN N ...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		unsigned n = (unsigned)strtoul(argv[i], NULL, 10);
		struct bench_group group =
		    bench_threads(n, pattern->run, NULL, 400e6 * scale);

		bench_print(bench_mops(&group), "Mops/s", "patterns.%s.%u",
		    pattern->name, n);
		bench_print(bench_status_mib("VmHWM:"), "MiB",
		    "patterns.%s.peak.%u", pattern->name, n);
	}
	return 0;
}
