/*
 * free() of an address inside a small block.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(p + 16);
	return 0;
}
