/* free() of an address one byte into a block of 8 bytes. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(8);

	check(p != NULL);
	free(p + 1);
	return 0;
}
