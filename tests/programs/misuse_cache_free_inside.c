/*
 * umem_cache_free() of an address inside an object.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_free\(kettles, 0x[0-9a-f]+\): not the start of a block$
 */
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
