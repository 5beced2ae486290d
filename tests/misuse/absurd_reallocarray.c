/* reallocarray() of more than there are addresses. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(
	    reallocarray(block(10), number(SIZE_MAX / 16 + 2), 16));

	judge(p != NULL ? "a block smaller than was asked for" : NULL, 100);
}
