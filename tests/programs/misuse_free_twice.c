/* A block freed twice in a row. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(malloc(100));
	free(p);
	free(p);
	return 0;
}
