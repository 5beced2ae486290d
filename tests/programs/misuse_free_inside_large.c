/*
 * free() of an address inside a large block, at the start of a page.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p + 20 * MIB);
	return 0;
}
