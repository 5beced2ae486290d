/*
 * Memory that a program has freed is released to the kernel: with threads after
 * two seconds without a call, in a single-threaded program at the next calls.
 *
 * test modes: rseq locked own
 */
#include "tests/programs/check.h"

enum {
	BYTES = 256 << 20,
	BLOCK = 64,
	NBLOCKS = BYTES / BLOCK,
	NCALLS = 2000,
	MOST_KIB = 8 << 10
};

static void
fill_and_free(void **block)
{
	for (int i = 0; i < NBLOCKS; i++) {
		block[i] = malloc(BLOCK);
		check(block[i] != NULL);
		memset(block[i], 1, BLOCK);
	}
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
}

static void
call(void)
{
	for (int i = 0; i < NCALLS; i++)
		free(malloc(BLOCK));
}

static void *
wait_for_end(void *arg)
{
	pause();
	return arg;
}

int
main(void)
{
	void **block = malloc(NBLOCKS * sizeof(*block));
	struct timespec start, end;
	long before;

	check(block != NULL);
	memset(block, 1, NBLOCKS * sizeof(*block));
	before = rss_kib();
	clock_gettime(CLOCK_MONOTONIC, &start);
	fill_and_free(block);
	clock_gettime(CLOCK_MONOTONIC, &end);
	/*
	 * The library releases nothing in the timed part, unless that takes
	 * long.
	 */
	if (end.tv_sec * 10 + end.tv_nsec / 100000000 <
	    start.tv_sec * 10 + start.tv_nsec / 100000000 + 4)
		check(rss_kib() > before + BYTES / 2048);
	sleep(1);
	call();
	check(rss_kib() < before + MOST_KIB);

	thread_start(wait_for_end, NULL);
	fill_and_free(block);
	/*
	 * The upkeep thread needs less than 2 s, and its turns on a CPU, which
	 * come late on a busy machine.
	 */
	for (int i = 0; i < 200 && rss_kib() >= before + MOST_KIB; i++)
		usleep(50000);
	check(rss_kib() < before + MOST_KIB);
	return 0;
}
