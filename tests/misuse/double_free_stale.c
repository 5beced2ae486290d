/* The first owner frees a block again after a second owner got it. */
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
