/*
 * An object written to while it waits for a grace period.
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
	hold_readers();
	defer_object(p);
	scribble(p + 32, 8);
	release_readers();
	judge_by(NULL, 64, get);
}
