/*
 * Under mlockall() freed memory is released to the kernel as without it,
 * from Linux 5.18 on.
 */
#include <malloc.h>
#include <sys/mman.h>

#include "tests/programs/check.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum {
	NBLOCKS = 20000,
	NLARGE = 4
};

static char *block[NBLOCKS], *large[NLARGE];

int
main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	long before, full, after;
	void *at;

	memset(block, 0, sizeof(block));
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		skip("no right to lock memory");
	at = mmap(NULL, page, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || madvise(at, page, MADV_DONTNEED_LOCKED) != 0)
		skip("the kernel does not drop locked pages");
	keep(malloc(1));
	before = rss_kib();
	for (int i = 0; i < NBLOCKS; i++) {
		check((block[i] = malloc(1000)) != NULL);
		memset(block[i], 1, 1000);
	}
	for (int i = 0; i < NLARGE; i++) {
		check((large[i] = malloc(12 * MIB)) != NULL);
		memset(large[i], 1, 12 * MIB);
	}
	full = rss_kib();
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
	for (int i = 0; i < NLARGE; i++)
		free(large[i]);
	check(malloc_trim(0) == 1);
	after = rss_kib();
	printf("%ld KiB, then %ld, trimmed %ld\n", before, full, after);
	check(full - before > 60000);
	check(after - before < (full - before) / 5);
	churn(1, 10000, 50000);
	return 0;
}
