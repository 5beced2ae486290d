/*
 * A large block freed twice.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p);
	free(p);
	return 0;
}
