/*
 * An object freed to another cache is reported when its slab gets it.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_free\(spoons, 0x[0-9a-f]+\): object of another cache$
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *kettles = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	umem_cache_t *spoons = umem_cache_create(
	    "spoons", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	check(kettles != NULL && spoons != NULL);
	umem_cache_free(spoons, umem_cache_alloc(kettles, UMEM_DEFAULT));
	umem_cache_reap_now(spoons);
	return 0;
}
