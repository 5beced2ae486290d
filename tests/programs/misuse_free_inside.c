/* free() of an address inside a small block. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(p + 16);
	return 0;
}
