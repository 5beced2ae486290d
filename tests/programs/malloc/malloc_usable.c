/*
 * malloc_usable_size() returns at least the requested size, and the program can
 * write all of these bytes.  The result exceeds the requested size, rounded up
 * to 16, by a fourth at most, and by an eighth on average over 1 to 32768.
 *
 * test modes: default
 */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	static char *block[3];
	double waste = 0;

	check(malloc_usable_size(NULL) == 0);
	for (size_t n = 1; n <= 2 * MIB; n += n < 32768 ? 1 : n / 64) {
		size_t round = n <= 8 ? 8 : (n + 15) & ~(size_t)15, usable = 0;

		for (int i = 0; i < 3; i++) {
			check((block[i] = malloc(n)) != NULL);
			usable = malloc_usable_size(block[i]);
			check(usable >= n);
			stamp(block[i], usable, (uint64_t)i);
		}
		if (usable > round + round / 4)
			printf("malloc(%zu) takes %zu\n", n, usable);
		check(usable <= round + round / 4);
		if (n <= 32768)
			waste += (double)(usable - n) / (double)usable;
		for (int i = 0; i < 3; i++)
			check(is_stamped(block[i], usable, (uint64_t)i));
		/* realloc() up to the usable size does not move the block. */
		check(realloc(block[0], usable) == block[0]);
		for (int i = 0; i < 3; i++)
			free(block[i]);
	}
	printf("average waste up to 32768: %.2f %%\n", waste / 327.68);
	check(waste / 32768 <= 0.125);
	return 0;
}
