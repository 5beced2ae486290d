/*
 * The limits of UMEM_OPTIONS for magazines and depots bound the cached memory:
 * after 64 MiB were freed, malloc_stats() reports less than a million bytes.
 *
 * test env: UMEM_OPTIONS=magazine_bytes=8k,depot_bytes=32k,thread=no
 * test stderr: cached .* [0-9]{4,6} in CPUs, [0-9]{1,6} in depots, 
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
