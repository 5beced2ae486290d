/* linked.c - linked with libumem.so.1: loses objects, and has failures */
#include <stdio.h>
#include <unistd.h>

#include "umem/umem.h"

#define NLOST 5

static umem_cache_t *mine, *other;

static __attribute__((noinline)) void
lose(umem_cache_t *cache)
{
	volatile char *object = umem_cache_alloc(cache, UMEM_NOFAIL);

	object[0] = 1;
	object = NULL;
}

int
main(void)
{
	char byte;

	mine = umem_cache_create("mine", 100, 0, 0, 0, 0, 0, 0, 0);
	other = umem_cache_create("other", 200, 0, 0, 0, 0, 0, 0, 0);
	for (int i = 0; i < NLOST; i++)
		lose(mine);
	lose(other);
	umem_setmtbf(1);
	if (umem_cache_alloc(mine, UMEM_DEFAULT) != NULL ||
	    umem_alloc(1000, UMEM_DEFAULT) != NULL)
		return 1;
	umem_setmtbf(0);
	if (umem_alloc((size_t)1 << 46, UMEM_DEFAULT) != NULL)
		return 2;
	puts("ready");
	fflush(stdout);
	return (int)read(0, &byte, 1);
}
