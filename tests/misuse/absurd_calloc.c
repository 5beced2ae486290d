/* calloc() of more than there are addresses. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(
	    calloc((size_t)1 << 33, number(((size_t)1 << 31) + 1)));

	judge(p != NULL ? "a block smaller than was asked for" : NULL, 100);
}
