/* A second free after forty others, early in the life of the program. */
#include "tests/programs/check.h"

int
main(void)
{
	static char *block[40];
	char *p = malloc(48);

	for (int i = 0; i < 40; i++)
		check((block[i] = malloc(48)) != NULL);
	free(p);
	for (int i = 0; i < 40; i++)
		free(block[i]);
	free(p);
	fprintf(stderr, "reached\n");
	return 0;
}
