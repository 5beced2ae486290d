/* A block freed twice with others between: its slab finds the second free. */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100), *q = malloc(100);

	check(p != NULL && q != NULL);
	free(p);
	free(q);
	free(p);
	malloc_trim(0);
	return 0;
}
