/*
 * An object freed, and then given to umem_cache_free_rcu().
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	cache = object_cache();
	void *p = get(64), *q = get(64);

	put(p);
	put(q);
	defer_object(p);
	wait_for_readers();
	judge_by(NULL, 64, get);
}
