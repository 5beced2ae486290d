/*
 * free() of a variable of the program, before anything was allocated.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not an address of the heap$
 */
#include "tests/programs/check.h"

int
main(void)
{
	static char variable[64] __attribute__((aligned(16)));

	free(keep(variable));
	return 0;
}
