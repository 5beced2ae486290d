/*
 * free_sized() and free_aligned_sized() of C23 free blocks of malloc, calloc,
 * realloc and aligned_alloc.  glibc 2.36 does not have these functions.
 *
 * test modes: default
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

int
main(void)
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
	return 0;
}
