/*
 * A block of 9 MiB given to free_rcu(), and freed while it waits.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	char *p = block(9 << 20);

	hold_readers();
	defer_block(p);
	drop(p);
	release_readers();
	judge(NULL, 9 << 20);
}
