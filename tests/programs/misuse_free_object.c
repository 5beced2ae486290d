/* free() of an object of a cache. */
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
