/* umem_cache_free() of an address inside an object. */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *object;

	check(cache != NULL);
	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_free(cache, object + 16);
	umem_cache_reap_now(cache);
	return 0;
}
