/* malloc_trim() releases free memory to the kernel, also of small blocks. */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	NBLOCKS = 400000
};
static char *block[NBLOCKS];

static void
round_of(size_t n, int count)
{
	long before, full, after;

	malloc_trim(0);
	before = rss_kib();
	for (int i = 0; i < count; i++) {
		check((block[i] = malloc(n)) != NULL);
		memset(block[i], 1, n);
	}
	full = rss_kib();
	for (int i = 0; i < count; i++)
		free(block[i]);
	malloc_trim(0);
	after = rss_kib();
	printf("%d of %zu: %ld KiB, then %ld, trimmed %ld\n", count, n, before,
	    full, after);
	check(full - before > (long)(n * (size_t)count / 1024) * 9 / 10);
	check(after - before < (full - before) / 10 + 1024);
}

int
main(void)
{
	memset(block, 0, sizeof(block));
	round_of(100, NBLOCKS);
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
	return 0;
}
