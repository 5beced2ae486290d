/*
 * A block freed twice with another between: one of the newest rounds.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test no stderr: reached
 */
#include "tests/programs/check.h"

int
main(void)
{
	char *p, *q;

	for (int i = 0; i < 100; i++)
		free(malloc(100));
	p = malloc(100);
	q = malloc(100);
	check(p != NULL);
	free(p);
	free(q);
	free(p);
	check(!"reached");
	return 0;
}
