/* free() of an address on the stack. */
#include "tests/programs/check.h"

int
main(void)
{
	char local[64] __attribute__((aligned(16)));

	free(malloc(32));
	free(keep(local));
	return 0;
}
