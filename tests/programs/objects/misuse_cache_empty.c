/*
 * umem_cache_destroy() is silent if all objects of the cache were freed.
 *
 * test link: umem
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	N = 3000
};
static void *object[N];

static void *
use_and_free(void *cache)
{
	static __thread void *mine[N / 4];

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < N / 4; i++)
			check((mine[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (int i = 0; i < N / 4; i++)
			umem_cache_free(cache, mine[i]);
	}
	return NULL;
}

int
main(void)
{
	pthread_t thread[4];

	for (int round = 0; round < 50; round++) {
		umem_cache_t *cache = umem_cache_create(
		    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

		check(cache != NULL);
		for (int i = 0; i < 4; i++)
			thread[i] = thread_start(use_and_free, cache);
		for (int i = 0; i < N; i++)
			check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (int i = 0; i < N; i++)
			umem_cache_free(cache, object[i]);
		for (int i = 0; i < 4; i++)
			thread_end(thread[i]);
		umem_cache_destroy(cache);
	}
	return 0;
}
