/*
 * A program that has locked its memory, or has turned trimming off, allocates
 * memory that it has freed before without a page fault, also after a pause.
 * malloc_trim() returns the memory all the same.
 *
 * test timeout: 60
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

enum {
	NBLOCKS = 256,
	BLOCK = 100000,
	NROUNDS = 4,
	/* Those of the pause and of the measurement itself. */
	FAULTS_MAX = 100
};

enum lock {
	LOCK_ALL,
	LOCK_ON_FAULT,
	LOCK_BLOCKS,
	NO_TRIM,
	NWAYS
};

static long
nfaults(void)
{
	struct rusage usage;

	check(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt;
}

static void *
wait_for_end(void *arg)
{
	pause();
	return arg;
}

static void
use_and_free(void)
{
	static char *block[NBLOCKS];

	for (int i = 0; i < NBLOCKS; i++) {
		check((block[i] = malloc(BLOCK)) != NULL);
		memset(block[i], 1, BLOCK);
	}
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
}

/* Fills the heap; with LOCK_BLOCKS, single ranges of it are locked. */
static void
prefault(enum lock way)
{
	char *p = malloc(2 * NBLOCKS * BLOCK);

	check(p != NULL);
	memset(p, 1, 2 * NBLOCKS * BLOCK);
	if (way == LOCK_BLOCKS && mlock(p, 2 * NBLOCKS * BLOCK) != 0)
		skip("no right to lock memory");
	free(p);
}

static void
run(enum lock way, bool threads)
{
	long faults = 0;

	if (way == LOCK_ALL && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		skip("no right to lock memory");
	if (way == LOCK_ON_FAULT &&
	    mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
		skip("no MCL_ONFAULT");
	if (way == NO_TRIM)
		check(mallopt(M_TRIM_THRESHOLD, -1) == 1);
	if (threads)
		thread_start(wait_for_end, NULL);
	prefault(way);
	use_and_free();
	for (int i = 0; i < NROUNDS; i++) {
		usleep(500000);
		faults -= nfaults();
		use_and_free();
		faults += nfaults();
	}
	fprintf(stderr, "way %d: %ld page faults\n", (int)way, faults);
	check(faults < FAULTS_MAX);
	if (way != NO_TRIM)
		return;
	check(rss_kib() > 2 * NBLOCKS * BLOCK / 1024);
	check(malloc_trim(0) == 1);
	check(rss_kib() < NBLOCKS * BLOCK / 1024);
	/* Another value turns trimming on again. */
	check(mallopt(M_TRIM_THRESHOLD, 1 << 17) == 1);
	use_and_free();
	for (int i = 0; i < 200 && rss_kib() > NBLOCKS * BLOCK / 2048; i++) {
		usleep(50000);
		for (int k = 0; k < 1000; k++)
			free(malloc(100));
	}
	check(rss_kib() < NBLOCKS * BLOCK / 2048);
}

int
main(void)
{
	limit_time();
	for (int i = 0; i < 2 * NWAYS; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			limit_time();
			run((enum lock)(i / 2), i % 2 != 0);
			exit(0);
		}
		check(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			return 77; /* The child has said why. */
		check(status == 0);
	}
	return 0;
}
