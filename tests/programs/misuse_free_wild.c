/* free() of an address far beyond the used part of the heap. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	free(keep(p + 1024 * MIB));
	return 0;
}
