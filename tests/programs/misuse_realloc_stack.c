/* realloc() of an address on the stack. */
#include "tests/programs/check.h"

int
main(void)
{
	char local[64] __attribute__((aligned(16)));

	keep(realloc(keep(local), 100));
	return 0;
}
