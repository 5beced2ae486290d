/*
 * An object freed after a grace period, to a cache that was destroyed while it
 * was in use.
 *
 * test signal: 6
 * test link: rcu
 * test libs: -lurcu-memb
 * test stderr: ^umem: umem_cache_free_rcu\(kettles\): cache was destroyed$
 */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

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
	umem_cache_free_rcu(cache, object);
	return 0;
}
