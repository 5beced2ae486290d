/* malloc_usable_size() of an address inside a block. */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	return (int)malloc_usable_size(p + 16);
}
