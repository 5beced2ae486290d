/*
 * An object freed twice in a row.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_free\(kettles, 0x[0-9a-f]+\): block freed twice$
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
	umem_cache_free(cache, object);
	umem_cache_free(cache, object);
	_exit(0);
}
