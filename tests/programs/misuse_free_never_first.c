/* A block that was never allocated, freed early in the life of the program. */
#include "tests/programs/check.h"

int
main(void)
{
	char *p = malloc(48);

	check(p != NULL);
	free(p + 48 * 200);
	fprintf(stderr, "reached\n");
	return 0;
}
