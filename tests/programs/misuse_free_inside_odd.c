/*
 * free() of an address one byte into a block of 8 bytes.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(8);

	check(p != NULL);
	free(p + 1);
	return 0;
}
