/*
 * realloc() of an address inside a block.
 *
 * test signal: 6
 * test stderr: ^umem: realloc\(0x[0-9a-f]+\): not the start of a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	keep(realloc(p + 8, 100));
	return 0;
}
