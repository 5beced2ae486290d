/* umem_cache_free() of an address that is no memory of the library's. */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	static char variable[100] __attribute__((aligned(16)));

	check(cache != NULL);
	umem_cache_free(cache, variable);
	umem_cache_reap_now(cache);
	return 0;
}
