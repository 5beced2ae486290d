/* malloc_usable_size() of a variable. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char p[100];

	memset(p, CONTENT, sizeof(p));
	judge(
	    malloc_usable_size(keep(p + 32)) != 0 ? "said to be a block" : NULL,
	    100);
}
