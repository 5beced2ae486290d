/*
 * The frees that follow a second free find it.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 */
#include "tests/programs/check.h"

enum {
	N = 1000000
};

int
main(void)
{
	static char *block[N];

	for (int i = 0; i < N; i++)
		check((block[i] = malloc(100)) != NULL);
	for (int i = 0; i < N; i++) {
		free(block[i]);
		if (i == N / 2)
			free(block[i - 100]);
	}
	return 0;
}
