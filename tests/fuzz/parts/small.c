/* small.c - a process with a little of all that umem reads; see make_core.py */
#include <stdlib.h>
#include <unistd.h>

#include "umem/umem.h"
#include "vmem/vmem.h"

void *volatile kept[40];

static __attribute__((noinline)) void
lose(void)
{
	for (size_t i = 1; i < 8; i++) {
		void **outer = malloc(24);

		*outer = malloc(i * 40);
	}
}

static void
use_cache(void)
{
	umem_cache_t *cache =
	    umem_cache_create("small", 72, 0, NULL, NULL, NULL, NULL, NULL, 0);

	for (unsigned i = 0; i < 20; i++)
		kept[20 + i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	for (unsigned i = 0; i < 10; i++)
		umem_cache_free(cache, kept[20 + i]);
}

static void
use_arena(void)
{
	vmem_t *arena = vmem_create("numbers", (void *)16, 4096, 16, NULL, NULL,
	    NULL, 0, VM_NOSLEEP | VMC_IDENTIFIER);

	for (unsigned i = 1; i < 9; i++)
		vmem_alloc(arena, i * 16, VM_NOSLEEP);
}

int
main(void)
{
	char c;

	for (size_t i = 0; i < 20; i++) {
		kept[i] = malloc(i * 50);
		free(malloc(i * 70));
	}
	kept[0] = malloc(3000000);
	lose();
	use_cache();
	use_arena();
	if (write(1, "ready\n", 6) != 6)
		return 1;
	return (int)read(0, &c, 1);
}
