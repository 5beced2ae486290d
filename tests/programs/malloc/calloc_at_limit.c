/*
 * calloc() returns zeros also if a sample does not fit below the hard limit,
 * and a chunk that was used before takes its place.  The kernel purges no pages
 * here, because it refuses to.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

#pragma weak umem_ctl
#pragma weak umem_sample

enum {
	NLARGE = 20,
	LARGE = (8 << 20) + 128 * 1024,
	NSMALL = 16,
	SMALL = 80 * 1024,
	UNIT = 64 * 1024
};

static bool refuses;

/* The library calls the program's. */
int
madvise(void *at, size_t bytes, int advice)
{
	if (refuses && advice == MADV_DONTNEED) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Chunks that are not zero. */
static void
use_chunks(void)
{
	char *small[NSMALL];

	for (int i = 0; i < NSMALL; i++)
		if ((small[i] = malloc(SMALL)) != NULL)
			memset(small[i], 0xaa, SMALL);
	for (int i = 0; i < NSMALL; i++)
		free(small[i]);
}

static void
limit(size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	check(umem_ctl("hard_limit", text, NULL, 0) == 0);
}

int
main(void)
{
	size_t all = NLARGE * (size_t)LARGE + (5 << 20);
	char *large[NLARGE];

	if (umem_sample == NULL)
		skip("not on umem");
	refuses = true;
	for (int i = 0; i < NLARGE; i++)
		check((large[i] = malloc(LARGE)) != NULL);
	/* The tails are dirty units. */
	for (int i = 0; i < NLARGE; i++)
		keep(large[i] = realloc(large[i], LARGE - UNIT));
	for (int i = 0; i < 80; i++, all -= UNIT) {
		unsigned char *zeros;

		for (int k = 0; k < 3; k++)
			use_chunks();
		limit(all);
		check(umem_sample(1) == 0);
		zeros = calloc(1, SMALL);
		check(umem_sample(0) == 0);
		check(zeros == NULL || is_zero(zeros, SMALL));
		limit((size_t)1 << 40);
	}
	return 0;
}
