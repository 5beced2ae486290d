/* The only block of its size freed twice: nothing else is in the magazine. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(5000);

	check(p != NULL);
	free(p);
	free(p);
	return 0;
}
