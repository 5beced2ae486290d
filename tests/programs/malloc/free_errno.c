/*
 * free() does not change errno for any block; a malloc() that succeeds does
 * not report an error.
 */
#include "tests/programs/check.h"

int
main(void)
{
	enum {
		N = 600
	};
	static char *block[N];

	for (size_t n = 0; n < 200 * MIB; n += n / 2 + 1) {
		char *p = malloc(n);

		check(p != NULL);
		memset(p, 1, n);
		errno = 1234;
		free(p);
		check(errno == 1234);
	}
	/* Many, so that whole slabs and magazines go back. */
	for (size_t n = 16; n < 200000; n = n * 5 / 2) {
		for (int i = 0; i < N; i++)
			check((block[i] = malloc(n)) != NULL);
		for (int i = 0; i < N; i++) {
			errno = i;
			free(block[i]);
			check(errno == i);
		}
	}
	return 0;
}
