/* Blocks of 16 bytes and more lie at multiples of 16, smaller ones of 8. */
#include "tests/programs/check.h"

static void
try(size_t n)
{
	char *p = malloc(n), *zero = calloc(1, n), *moved = realloc(NULL, n);
	size_t align = n >= 16 ? 16 : 8;

	check(p != NULL && zero != NULL && moved != NULL);
	check(is_aligned(p, align) && is_aligned(zero, align) &&
	      is_aligned(moved, align));
	check(is_zero(zero, n));
	stamp(p, n, n);
	free(zero);
	free(p);
	check((moved = realloc(moved, n + 16)) != NULL);
	check(is_aligned(moved, 16));
	free(moved);
}

int
main(void)
{
	for (size_t n = 0; n <= 34000; n++)
		try(n);
	for (size_t n = 34001; n <= 64 * MIB; n += n / 3)
		try(n);
	return 0;
}
