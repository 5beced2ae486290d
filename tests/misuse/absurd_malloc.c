/* malloc() of a length that is negative. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(malloc(number((size_t)-24)));

	judge(p != NULL ? "a block smaller than was asked for" : NULL, 100);
}
