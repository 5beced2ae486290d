/* free() of an address that lies far behind what the heap has in use. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	free(keep(p + 1024 * MIB));
	return 0;
}
