/*
 * A block of 40 written to after its grace period.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#include "tests/misuse/rcu.h"

int
main(void)
{
	char *p = block(40);

	defer_block(p);
	wait_for_readers();
	scribble(p, 8);
	judge(NULL, 40);
}
