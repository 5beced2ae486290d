/*
 * The limits of UMEM_OPTIONS for magazines and depots bound the cached memory:
 * after 64 MiB were freed, CPUs and depots have less than a million bytes each.
 *
 * test env: UMEM_OPTIONS=magazine_bytes=8k,depot_bytes=32k,thread=no
 */
#include "tests/programs/check.h"
#include "umem/umem.h"

#pragma weak umem_stats

enum {
	BLOCK = 1024,
	NBLOCKS = 65536
};

int
main(void)
{
	static void *block[NBLOCKS];
	struct umem_stats stats;

	for (int i = 0; i < NBLOCKS; i++)
		check((block[i] = malloc(BLOCK)) != NULL);
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
	check(umem_stats(&stats, sizeof(stats)) == 0);
	printf("%zu bytes in CPUs, %zu in depots\n", stats.cpu_bytes,
	    stats.depot_bytes);
	check(stats.cpu_bytes >= 1000 && stats.cpu_bytes < 1000000);
	check(stats.depot_bytes < 1000000);
	return 0;
}
