/*
 * malloc_trim() releases free memory to the kernel.
 *
 * test run: all_free
 * test args: all_free
 * test run: sparse
 * test args: sparse
 */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	NFREE = 400000
};
static char *freed[NFREE];

static void
round_of(size_t n, int count)
{
	long before, full, after;

	malloc_trim(0);
	before = rss_kib();
	for (int i = 0; i < count; i++) {
		check((freed[i] = malloc(n)) != NULL);
		memset(freed[i], 1, n);
	}
	full = rss_kib();
	for (int i = 0; i < count; i++)
		free(freed[i]);
	malloc_trim(0);
	after = rss_kib();
	printf("%d of %zu: %ld KiB, then %ld, trimmed %ld\n", count, n, before,
	    full, after);
	check(full - before > (long)(n * (size_t)count / 1024) * 9 / 10);
	check(after - before < (full - before) / 10 + 1024);
}

/* Of every size, also of small blocks. */
static void
all_free(void)
{
	memset(freed, 0, sizeof(freed));
	round_of(100, NFREE);
	round_of(2000, 30000);
	round_of(30000, 2000);
	round_of(300000, 200);
	round_of(5000000, 12);
	round_of(40000000, 2);
	/* Nothing left to give: says so; and nothing is broken. */
	malloc_trim(0);
	check(malloc_trim(0) == 0);
	check(malloc_trim(SIZE_MAX) == 0 || 1);
	churn(2, 20000, 50000);
}

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

/*
 * The free pages between the remaining blocks are released, and mallinfo2()
 * does not count released memory.
 */
static void
sparse(void)
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
}

static const struct test_case cases[] = {
    {"all_free", all_free}, {"sparse", sparse}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
