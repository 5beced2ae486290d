/*
 * A block freed twice in a row.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(malloc(100));
	free(p);
	free(p);
	return 0;
}
