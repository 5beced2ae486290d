/* A block that was never allocated is found when others fill the magazine. */
#include "tests/programs/check.h"

enum {
	N = 1000
};

int
main(void)
{
	static char *block[N];

	for (int i = 0; i < N; i++)
		check((block[i] = malloc(48)) != NULL);
	free(block[N - 1] + 48 * 300);
	for (int i = 0; i < N; i++)
		free(block[i]);
	return 0;
}
