/*
 * free() of an address far beyond the used part of the heap.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not an address of the heap$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	free(keep(p + 1024 * MIB));
	return 0;
}
