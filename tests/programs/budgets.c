/*
 * What UMEM_OPTIONS says of magazines and depots bounds what is cached: of
 * 64 MiB that were freed less than a million bytes, by what malloc_stats says.
 */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	BLOCK = 1024,
	NBLOCKS = 65536
};

int
main(void)
{
	static void *block[NBLOCKS];

	for (int i = 0; i < NBLOCKS; i++)
		check((block[i] = malloc(BLOCK)) != NULL);
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
	malloc_stats();
	return 0;
}
