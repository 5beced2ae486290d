/*
 * umem_cache_free() of an address that is no memory of the library's.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_cache_free\(kettles, 0x[0-9a-f]+\): object of another cache$
 */
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
