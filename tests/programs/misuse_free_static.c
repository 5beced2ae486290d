/* free() of a variable of the program, before anything was allocated. */
#include "tests/programs/check.h"

int
main(void)
{
	static char variable[64] __attribute__((aligned(16)));

	free(keep(variable));
	return 0;
}
