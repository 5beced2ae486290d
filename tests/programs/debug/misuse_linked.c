/*
 * Misuse in a program that is linked with the libraries, on libc's malloc().
 *
 * test link: rcu
 * test libs: -lurcu-memb
 * test signal: 6
 *
 * test run: libc_block
 * test args: libc_block
 * test stderr: ^umem: umem_free\(0x[0-9a-f]+\): not an address of the heap$
 * test run: destroyed
 * test args: destroyed
 * test stderr: ^umem: umem_cache_free_rcu\(kettles\): cache was destroyed$
 */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

#include "tests/programs/check.h"

/* umem_free() of a block of libc's malloc(). */
static void
libc_block(void)
{
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	umem_free(malloc(100), 100);
}

/*
 * An object freed after a grace period, to a cache that was destroyed while it
 * was in use.
 */
static void
destroyed(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *object;

	check(cache != NULL);
	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_destroy(cache);
	umem_cache_free_rcu(cache, object);
}

static const struct test_case cases[] = {
    {"libc_block", libc_block}, {"destroyed", destroyed}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
