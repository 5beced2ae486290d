/*
 * The only block of its size freed twice: nothing else is in the magazine.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(5000);

	check(p != NULL);
	free(p);
	free(p);
	return 0;
}
