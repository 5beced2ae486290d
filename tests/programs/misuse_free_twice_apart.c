/* A second free forty frees later is found when others fill the magazine. */
#include "tests/programs/check.h"

enum {
	N = 1000,
	APART = 40
};

int
main(void)
{
	static char *block[N];

	for (int i = 0; i < N; i++)
		check((block[i] = malloc(48)) != NULL);
	for (int i = 0; i < N; i++) {
		free(block[i]);
		if (i % 200 == APART)
			free(block[i - APART]);
	}
	return 0;
}
