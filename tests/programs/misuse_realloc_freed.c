/*
 * realloc() of a large block that was freed.
 *
 * test signal: 6
 * test stderr: ^umem: realloc\(0x[0-9a-f]+\): block freed twice$
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p);
	keep(realloc(p, 100 * MIB));
	return 0;
}
