/* realloc() of an address inside a block. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	keep(realloc(p + 8, 100));
	return 0;
}
