/*
 * umem_cache_destroy() of a cache with objects in use prints a message and
 * returns.  The objects stay usable, and other caches are not affected.
 *
 * test link: umem
 * test stderr: ^umem: umem_cache_destroy: 'kettles' \(0x[0-9a-f]+\) not empty$
 * test no stderr: spoons
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *object, *other;

	check(cache != NULL);
	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	stamp(object, 100, 7);
	umem_cache_destroy(cache);
	cache = umem_cache_create(
	    "spoons", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(cache != NULL);
	for (int i = 0; i < 10000; i++) {
		check((other = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
		check(other + 100 <= object || object + 100 <= other);
		stamp(other, 100, 8);
	}
	check(is_stamped(object, 100, 7));
	return 0;
}
