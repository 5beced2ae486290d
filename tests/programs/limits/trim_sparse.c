/*
 * malloc_trim() releases the free pages between the remaining blocks, and
 * mallinfo2() does not count released memory.
 */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	NBLOCKS = 200000,
	BLOCK = 1000,
	KEPT = 16 /* one block in so many stays */
};

static char *block[NBLOCKS];

static size_t
counted(void)
{
	struct mallinfo2 m = mallinfo2();

	check(m.uordblks + m.fordblks == m.arena);
	return m.arena + m.hblkhd;
}

static void
check_counted(const char *when, size_t slack)
{
	size_t resident = (size_t)rss_kib() * KIB;

	printf("%s: counted %zu, resident %zu\n", when, counted(), resident);
	check(counted() <= resident + slack);
}

int
main(void)
{
	size_t all, sparse, resident, none;

	memset(block, 0, sizeof(block));
	for (int i = 0; i < NBLOCKS; i++) {
		check((block[i] = malloc(BLOCK)) != NULL);
		memset(block[i], 1, BLOCK);
	}
	all = counted();
	check(all >= (size_t)NBLOCKS * BLOCK);
	for (int i = 0; i < NBLOCKS; i++) {
		if (i % KEPT == 0)
			continue;
		free(block[i]);
		block[i] = NULL;
	}
	check(malloc_trim(0) == 1);
	check_counted("one in 16 left", 8 * MIB);
	resident = (size_t)rss_kib() * KIB;
	sparse = counted();
	check(resident < all * 2 / 5 && sparse < all * 2 / 5);
	for (int i = 0; i < NBLOCKS; i += KEPT)
		check(block[i][0] == 1 && block[i][BLOCK - 1] == 1);

	/* The pages come back when blocks are allocated in them. */
	for (int i = 0; i < NBLOCKS; i++)
		if (block[i] == NULL)
			check((block[i] = calloc(1, BLOCK)) != NULL &&
			      is_zero(block[i], BLOCK));
	check(counted() >= (size_t)NBLOCKS * BLOCK);
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
	malloc_trim(0);
	none = counted();
	check_counted("none left", 8 * MIB);
	check(none < all / 10);
	churn(3, 20000, 50000);
	return 0;
}
