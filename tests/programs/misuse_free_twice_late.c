/*
 * A block freed twice with others between: its slab finds the second free.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100), *q = malloc(100);

	check(p != NULL && q != NULL);
	free(p);
	free(q);
	free(p);
	malloc_trim(0);
	return 0;
}
