/*
 * A block of 40 given to free_rcu() twice.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	char *p = block(40);

	hold_readers();
	defer_block(p);
	defer_block(p);
	release_readers();
	judge(NULL, 40);
}
