/* contended.c - threads meet at the lock of one cache until input ends */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "umem/umem.h"

#define NTHREADS 4

static umem_cache_t *cache;

static void *
work(void *arg)
{
	for (;;) {
		void *p = umem_cache_alloc(cache, UMEM_DEFAULT);

		if (p != NULL)
			umem_cache_free(cache, p);
	}
	return arg;
}

int
main(void)
{
	pthread_t thread;

	cache = umem_cache_create(
	    "contended", 64, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	if (cache == NULL)
		return 1;
	for (int i = 0; i < NTHREADS; i++)
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			return 1;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
