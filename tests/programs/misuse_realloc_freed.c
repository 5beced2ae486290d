/* realloc() of a large block that was freed. */
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
