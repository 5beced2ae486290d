/* malloc_usable_size() of the middle of a block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(100);

	own(p, 100);
	judge(
	    malloc_usable_size(keep(p + 16)) != 0 ? "said to be a block" : NULL,
	    100);
}
