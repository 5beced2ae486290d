/*
 * free() of an object of a cache.
 *
 * test signal: 6
 * test link: umem
 * test preload: yes
 * test stderr: ^umem: free\(0x[0-9a-f]+\): object of a cache, not a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	check(cache != NULL);
	free(umem_cache_alloc(cache, UMEM_DEFAULT));
	return 0;
}
