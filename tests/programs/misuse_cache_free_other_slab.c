/* A cache without magazines reports an object of another cache at once. */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *kettles = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	umem_cache_t *spoons = umem_cache_create(
	    "spoons", 100, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);

	check(kettles != NULL && spoons != NULL);
	umem_cache_free(spoons, umem_cache_alloc(kettles, UMEM_DEFAULT));
	_exit(0);
}
