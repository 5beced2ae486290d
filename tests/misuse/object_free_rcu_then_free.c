/*
 * An object given to umem_cache_free_rcu(), and freed while it waits.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	cache = object_cache();
	void *p = get(64);

	hold_readers();
	defer_object(p);
	put(p);
	release_readers();
	judge_by(NULL, 64, get);
}
