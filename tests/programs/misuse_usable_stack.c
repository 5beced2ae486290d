/* malloc_usable_size() of an address on the stack. */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	char local[64] __attribute__((aligned(16)));

	return (int)malloc_usable_size(keep(local));
}
