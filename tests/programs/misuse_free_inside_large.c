/* free() of an address inside a large block, at the start of a page. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p + 20 * MIB);
	return 0;
}
