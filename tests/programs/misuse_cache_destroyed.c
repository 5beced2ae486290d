/*
 * A cache used after it was destroyed with objects in use.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_alloc\(kettles\): cache was destroyed$
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	check(cache != NULL);
	check(umem_cache_alloc(cache, UMEM_DEFAULT) != NULL);
	umem_cache_destroy(cache);
	keep(umem_cache_alloc(cache, UMEM_DEFAULT));
	return 0;
}
