/* Freed, given to another, freed again by the first. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	drop(p);
	/* If there is an owner, it does not know; two_owners() will see. */
	next_owner(p, 40);
	drop(p);
	judge(NULL, 40);
}
