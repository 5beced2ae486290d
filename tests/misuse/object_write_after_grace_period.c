/*
 * An object written to after its grace period.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	cache = object_cache();
	char *p = (char *)get(64);

	put_bytes(p, CONTENT, 64);
	defer_object(p);
	wait_for_readers();
	scribble(p + 32, 8);
	judge_by(NULL, 64, get);
}
