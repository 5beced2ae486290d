/*
 * The rules of the standards and of glibc's manual for malloc().
 *
 * test cflags: -Wno-alloc-size-larger-than
 *
 * test run: alignment
 * test args: alignment
 * test run: zero_size
 * test args: zero_size
 * test run: huge_sizes
 * test args: huge_sizes
 * test run: free_errno
 * test args: free_errno
 * test run: realloc_fails
 * test args: realloc_fails
 * test run: calloc_zero
 * test args: calloc_zero
 * test run: usable_size
 * test args: usable_size
 * test modes: default
 * test run: options
 * test args: options
 * test modes: default
 */
#include <malloc.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

static void
try_alignment(size_t n)
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

/* Blocks of 16 bytes and more lie at multiples of 16, smaller ones of 8. */
static void
alignment(void)
{
	for (size_t n = 0; n <= 34000; n++)
		try_alignment(n);
	for (size_t n = 34001; n <= 64 * MIB; n += n / 3)
		try_alignment(n);
}

/* Unknown to the compiler, which warns of a constant size of 0. */
static volatile size_t zero;

/* Size 0 gives distinct blocks; NULL may be freed; realloc(p, 0) frees. */
static void
zero_size(void)
{
	enum {
		N = 10000
	};
	static char *block[N];
	char *p, *q;
	long before;

	for (int i = 0; i < N; i++) {
		switch (i % 4) {
		case 0:
			block[i] = malloc(zero);
			break;
		case 1:
			block[i] = calloc(zero, 8);
			break;
		case 2:
			block[i] = calloc(8, zero);
			break;
		default:
			block[i] = realloc(NULL, zero);
		}
		check(block[i] != NULL && is_aligned(block[i], 8));
		for (int k = i > 8 ? i - 8 : 0; k < i; k++)
			check(block[i] != block[k]);
	}
	for (int i = 0; i < N; i++)
		free(block[i]);
	check((p = memalign(64, zero)) != NULL && is_aligned(p, 64));
	free(p);
	check((p = aligned_alloc(64, zero)) != NULL && is_aligned(p, 64));
	free(p);
	q = NULL;
	check(posix_memalign((void **)&q, 64, zero) == 0);
	free(q);

	errno = 7;
	free(NULL);
	check(errno == 7);

	/* As glibc has it; a block that were kept would be 100 MiB in all. */
	before = rss_kib();
	for (int i = 0; i < 1000; i++) {
		check((p = malloc(100 * KIB)) != NULL);
		memset(p, 1, 100 * KIB);
		check(realloc(p, zero) == NULL);
	}
	check(rss_kib() < before + 20 * 1024);
}

#define refused(call) (errno = 0, (call) == NULL && errno == ENOMEM)

/* Sizes beyond PTRDIFF_MAX, and products that overflow, are ENOMEM. */
static void
huge_sizes(void)
{
	static const size_t huge[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX,
	    SIZE_MAX - 1, SIZE_MAX - 7, SIZE_MAX - 15, SIZE_MAX - 4095,
	    SIZE_MAX - 65535, SIZE_MAX - 65536, (size_t)1 << 63, PTRDIFF_MAX,
	    PTRDIFF_MAX - 65536, (size_t)1 << 50};
	void *p;

	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		size_t n = *(size_t *)keep((void *)&huge[i]);

		check(refused(malloc(n)));
		check(refused(calloc(1, n)));
		check(refused(calloc(n, 1)));
		check(refused(realloc(NULL, n)));
		check(refused(memalign(64, n)));
		check(refused(aligned_alloc(64, n)));
		check(refused(reallocarray(NULL, n, 1)));
		check(refused(valloc(n)));
		check(posix_memalign(&p, 64, n) == ENOMEM);
	}
	check(refused(calloc((size_t)1 << 32, (size_t)1 << 32)));
	check(refused(calloc(SIZE_MAX / 8 + 2, 8)));
	check(refused(reallocarray(NULL, (size_t)1 << 33, (size_t)1 << 33)));
	check(refused(reallocarray(NULL, SIZE_MAX / 8 + 2, 8)));
	/* Other calls still work. */
	churn(1, 20000, 100000);
}

/* free() does not change errno for any block. */
static void
free_errno(void)
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
}

static const size_t size[] = {
    1, 16, 100, 3000, 40000, 100000, 3000000, 20000000};

/* A realloc that cannot be done gives NULL and ENOMEM, and keeps the block. */
static void
realloc_fails(void)
{
	struct rlimit limit;

	check(getrlimit(RLIMIT_AS, &limit) == 0);
	for (int limited = 0; limited < 2; limited++) {
		for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			size_t n = size[i];
			char *p = malloc(n);

			check(p != NULL);
			stamp(p, n, n);
			errno = 0;
			check(realloc(p, (size_t)PTRDIFF_MAX + 1) == NULL);
			check(errno == ENOMEM);
			errno = 0;
			check(realloc(p, SIZE_MAX) == NULL && errno == ENOMEM);
			errno = 0;
			check(realloc(p, SIZE_MAX - 63) == NULL &&
			      errno == ENOMEM);
			errno = 0;
			check(reallocarray(p, SIZE_MAX / 2, 3) == NULL);
			check(errno == ENOMEM);
			errno = 0;
			check(reallocarray(
				  p, (size_t)1 << 32, (size_t)1 << 32) == NULL);
			check(errno == ENOMEM);
			if (limited) {
				errno = 0;
				check(realloc(p, (size_t)1 << 40) == NULL);
				check(errno == ENOMEM);
			}
			check(is_stamped(p, n, n));
			check(malloc_usable_size(p) >= n);
			free(p);
		}
		limit.rlim_cur = (rlim_t)1 << 39;
		check(setrlimit(RLIMIT_AS, &limit) == 0);
	}
}

/*
 * malloc_usable_size() returns at least the requested size, and the program can
 * write all of these bytes.  The result exceeds the requested size, rounded up
 * to 16, by a fourth at most, and by an eighth on average over 1 to 32768.
 */
static void
usable_size(void)
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
}

/* mallopt() accepts the parameters of glibc, and breaks nothing. */
static void
options(void)
{
	static const int known[][2] = {{M_MMAP_THRESHOLD, 65536},
	    {M_TRIM_THRESHOLD, 65536}, {M_TOP_PAD, 0}, {M_MMAP_MAX, 100},
	    {M_MXFAST, 64}, {M_ARENA_MAX, 1}, {M_ARENA_TEST, 1},
	    {M_CHECK_ACTION, 3}, {M_PERTURB, 0}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		int answer = mallopt(known[i][0], known[i][1]);

		check(answer == 0 || answer == 1);
		churn(i, 5000, 200000);
	}
	/* Never a reason to end. */
	mallopt(12345, 1);
	mallopt(-12345, -1);
	churn(99, 5000, 200000);
}

/* calloc() gives zeros also where a dirty block lay before. */
static void
calloc_zero(void)
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
}

static const struct test_case cases[] = {{"alignment", alignment},
    {"zero_size", zero_size}, {"huge_sizes", huge_sizes},
    {"free_errno", free_errno}, {"realloc_fails", realloc_fails},
    {"usable_size", usable_size}, {"options", options},
    {"calloc_zero", calloc_zero}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
