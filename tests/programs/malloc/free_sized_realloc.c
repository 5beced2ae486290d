/*
 * free_sized() of a block that realloc() returned, with the size that the
 * program requested.  It also works if realloc() kept the block in place in a
 * larger chunk.
 */
#include <dlfcn.h>
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	N = 200
};

int
main(void)
{
	void (*free_sized)(void *, size_t);
	static char *block[N];
	static size_t size[N];
	uint64_t seed = 1;
	unsigned nkept = 0;

	*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	if (free_sized == NULL && umem_mode == NULL)
		skip("this C library has no free_sized");
	for (int i = 0; i < 200000; i++) {
		int k = (int)(seed >> 33) % N;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		size[k] = 1 + (seed >> 40) % 30000;
		block[k] = realloc(block[k], size[k]);
		check(block[k] != NULL);
		nkept += malloc_usable_size(block[k]) > size[k] / 2 * 3;
		if (i % 50 == 49) {
			free_sized(block[k], size[k]);
			block[k] = NULL;
		}
	}
	/* Or this test has tested nothing. */
	check(umem_mode == NULL || nkept > 100);
	for (int k = 0; k < N; k++)
		if (block[k] != NULL)
			free_sized(block[k], size[k]);
	return 0;
}
