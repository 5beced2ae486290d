/*
 * free_sized() and free_aligned_sized() of C23, which glibc 2.36 does not have.
 *
 * test run: families
 * test args: families
 * test modes: default
 * test run: resized
 * test args: resized
 */
#include <dlfcn.h>
#include <malloc.h>

#include "tests/programs/check.h"

static void
touch(char *p, size_t n)
{
	for (size_t at = 0; at < n; at += 4096)
		((volatile char *)p)[at] = 1;
}

/* Blocks of malloc, calloc, realloc and aligned_alloc. */
static void
families(void)
{
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	long before;

	*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&free_aligned_sized =
	    dlsym(RTLD_DEFAULT, "free_aligned_sized");
	if (free_sized == NULL && umem_mode == NULL)
		skip("this C library has no free_sized");
	check(free_sized != NULL && free_aligned_sized != NULL);

	free_sized(NULL, 0);
	free_sized(NULL, 100);
	free_aligned_sized(NULL, 64, 100);
	before = rss_kib();
	for (int round = 0; round < 10; round++) {
		for (size_t n = 0; n < 9 * MIB; n += n / 3 + 1) {
			void *p[6] = {malloc(n), calloc(1, n),
			    realloc(malloc(n / 2), n + 1), malloc(n),
			    aligned_alloc(64, n), aligned_alloc(4096, n)};

			for (int i = 0; i < 6; i++)
				touch(p[i], n);
			errno = 99;
			free_sized(p[0], n);
			free_sized(p[1], n);
			free_sized(p[2], n + 1);
			/* The usable size will do as well. */
			free_sized(p[3], malloc_usable_size(p[3]));
			free_aligned_sized(p[4], 64, n);
			free_aligned_sized(p[5], 4096, n);
			check(errno == 99);
		}
	}
	/* 54 MiB are in use at once, and 330 MiB of each kind in all. */
	check(rss_kib() < before + 200 * 1024);
}

enum {
	N = 200
};

/*
 * Blocks that realloc() returned, with the size that the program requested,
 * also if realloc() kept the block in place in a larger chunk.
 */
static void
resized(void)
{
	void (*free_sized)(void *, size_t);
	static char *block[N];
	static size_t size[N];
	uint64_t seed = 1;
	unsigned nkept = 0;

	*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	if (free_sized == NULL && umem_mode == NULL)
		skip("this C library has no free_sized");
	for (int i = 0; i < 200000; i++) {
		int k = (int)(seed >> 33) % N;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		size[k] = 1 + (seed >> 40) % 30000;
		block[k] = realloc(block[k], size[k]);
		check(block[k] != NULL);
		nkept += malloc_usable_size(block[k]) > size[k] / 2 * 3;
		if (i % 50 == 49) {
			free_sized(block[k], size[k]);
			block[k] = NULL;
		}
	}
	/* Or this test has tested nothing. */
	check(umem_mode == NULL || nkept > 100);
	for (int k = 0; k < N; k++)
		if (block[k] != NULL)
			free_sized(block[k], size[k]);
}

static const struct test_case cases[] = {
    {"families", families}, {"resized", resized}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
