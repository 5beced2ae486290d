/*
 * Threads with the smallest possible stack can allocate.
 *
 * test not with: musl has a least stack of 2 KiB
 */
#include <limits.h>
#include <malloc.h>

#include "tests/programs/check.h"

/* No churn(): its own frame is not malloc's fault. */
static void *
run(void *arg)
{
	uint64_t r = (uintptr_t)arg + 1;
	void *p[16] = {NULL};

	for (int i = 0; i < 3000; i++) {
		unsigned s = next_random(&r) % 16;
		size_t n = (next_random(&r) & 0xfffff) >> next_random(&r) % 16;

		free(p[s]);
		check((p[s] = malloc(n)) != NULL);
		if (i % 64 == 0)
			check((p[s] = realloc(p[s], n * 2 + 1)) != NULL);
	}
	for (int i = 0; i < 16; i++)
		free(p[i]);
	malloc_trim(0);
	return NULL;
}

int
main(void)
{
	pthread_attr_t attr;

	check(pthread_attr_init(&attr) == 0);
	check(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) == 0);
	for (uintptr_t i = 0; i < 50; i++) {
		pthread_t thread[4];

		for (uintptr_t k = 0; k < 4; k++)
			check(pthread_create(&thread[k], &attr, run,
				  (void *)(i * 4 + k)) == 0);
		for (int k = 0; k < 4; k++)
			thread_end(thread[k]);
	}
	return 0;
}
