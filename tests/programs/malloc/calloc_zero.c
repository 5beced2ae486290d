/*
 * calloc() gives zeros also where a dirty block lay before.
 *
 * test cflags: -Wno-alloc-size-larger-than
 */
#include "tests/programs/check.h"

int
main(void)
{
	enum {
		N = 40
	};
	static char *block[N];

	for (size_t n = 1; n < 70 * MIB; n += n / 2 + 1) {
		int many = n < MIB ? N : 2;

		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < many; i++) {
				check((block[i] = malloc(n)) != NULL);
				memset(block[i], 0xa5, n);
			}
			for (int i = 0; i < many; i++)
				free(block[i]);
			for (int i = 0; i < many; i++) {
				block[i] =
				    round == 1 ? calloc(n, 1) : calloc(1, n);
				check(block[i] != NULL);
				check(is_zero(block[i], n));
				memset(block[i], 0x5a, n);
			}
			for (int i = 0; i < many; i++)
				free(block[i]);
		}
	}
	/* Part of a former larger block; the rest after a shrinking realloc. */
	for (size_t n = 100; n < 40 * MIB; n *= 3) {
		char *p = malloc(n);

		check(p != NULL);
		memset(p, 0xff, n);
		check((p = realloc(p, n / 2)) != NULL);
		for (int i = 0; i < 4; i++) {
			check((block[i] = calloc(1, n / 4)) != NULL);
			check(is_zero(block[i], n / 4));
			memset(block[i], 0xff, n / 4);
		}
		check((p = realloc(p, n)) != NULL);
		memset(p, 0xff, n);
		free(p);
		for (int i = 0; i < 4; i++)
			free(block[i]);
	}
	errno = 0;
	check(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
	return 0;
}
