/*
 * Many threads use the magazines of one CPU; the other CPUs have none.
 *
 * test modes: rseq locked own
 * test env: UMEM_OPTIONS=concurrency=1
 * test no stderr: .
 */
#include <malloc.h>

#include "tests/programs/check.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 30000, 10000);
	return NULL;
}

int
main(void)
{
	struct umem_mode mode;
	pthread_t thread[16];

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.ncpus == 1);
	for (uintptr_t i = 0; i < 16; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 16; i++)
		thread_end(thread[i]);
	malloc_trim(0);
	churn(99, 30000, 10000);
	return 0;
}
