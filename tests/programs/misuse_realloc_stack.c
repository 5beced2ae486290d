/*
 * realloc() of an address on the stack.
 *
 * test signal: 6
 * test stderr: ^umem: realloc\(0x[0-9a-f]+\): not an address of the heap$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char local[64] __attribute__((aligned(16)));

	keep(realloc(keep(local), 100));
	return 0;
}
