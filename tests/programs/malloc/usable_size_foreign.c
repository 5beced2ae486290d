/*
 * malloc_usable_size() and its relatives answer 0 for an address that is no
 * block.  With the argument "outside", for addresses outside the heap alone:
 * with checks and with debugging, those in the heap are reported.
 *
 * test no stderr: .
 *
 * test run: plain
 * test run: sampled
 * test modes: default
 * test env: UMEM_OPTIONS=sample=64
 * test run: hardened
 * test modes: default
 * test args: outside
 * test env: UMEM_OPTIONS=hardened
 * test run: debugged
 * test modes: default
 * test args: outside
 * test env: UMEM_DEBUG=default
 * test run: guarded
 * test modes: default
 * test args: outside
 * test env: UMEM_DEBUG=firewall=1
 */
#include <malloc.h>
#include <sys/mman.h>

#include "tests/programs/check.h"

#pragma weak sallocx
#pragma weak xallocx
#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
size_t sallocx(const void *p, int flags);
size_t xallocx(void *p, size_t size, size_t extra, int flags);

static char of_program[100000];

static void
check_foreign(const void *p)
{
	void *q = keep((void *)(uintptr_t)p);

	errno = 99;
	check(malloc_usable_size(q) == 0);
	check(sallocx(q, 0) == 0);
	check(xallocx(q, 100, 0, 0) == 0);
	check(errno == 99);
}

static void
check_outside(void)
{
	static const uintptr_t wild[] = {1, 16, 0x1000, 0x7fffffffe000,
	    0x8000000000000000, UINTPTR_MAX - 4095, UINTPTR_MAX - 15,
	    UINTPTR_MAX};
	char local[100];
	char *mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(mapped != MAP_FAILED);
	for (size_t i = 0; i < 100; i++) {
		check_foreign(local + i);
		check_foreign(of_program + i * 1000);
		check_foreign(mapped + i * 4096);
	}
	check_foreign("text");
	check_foreign((void *)(uintptr_t)check_foreign);
	check_foreign(sbrk(0));
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++)
		check_foreign((void *)wild[i]);
}

static void
check_inside(void)
{
	static const size_t sizes[] = {24, 100, 5000, 100000, 20 * MIB};
	umem_cache_t *cache = umem_cache_create(
	    "objects", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *p = malloc(sizes[i]);

		check(malloc_usable_size(p) >= sizes[i]);
		check_foreign(p + 8);
		check_foreign(p + 1);
		check_foreign(p + sizes[i] - 1);
		if (sizes[i] < 20 * MIB)
			continue;
		free(p);
		check_foreign(p);
		check_foreign(p + 4 * MIB);
	}
	check(cache != NULL);
	check_foreign(umem_cache_alloc(cache, 0));
}

int
main(int argc, char **argv)
{
	/* Before the first block, too. */
	check_outside();
	free(keep(malloc(100)));
	check_outside();
	if (argc < 2 || strcmp(argv[1], "outside") != 0)
		check_inside();
	return 0;
}
