/*
 * A block freed again after its slab was returned to the heap.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	N = 10000
};

int
main(void)
{
	static char *block[N];

	for (int i = 0; i < N; i++)
		check((block[i] = malloc(1000)) != NULL);
	for (int i = 0; i < N; i++)
		free(block[i]);
	malloc_trim(0);
	free(block[N / 2]);
	malloc_trim(0);
	return 0;
}
