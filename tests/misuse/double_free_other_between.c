/* Freed twice, another of its size freed between. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40), *q = block(40);

	drop(p);
	drop(q);
	drop(p);
	judge(NULL, 40);
}
