/*
 * An object freed to a cache that was destroyed while it was in use.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_free\(kettles\): cache was destroyed$
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *object;

	check(cache != NULL);
	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_destroy(cache);
	umem_cache_free(cache, object);
	return 0;
}
