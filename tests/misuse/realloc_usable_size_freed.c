/* malloc_usable_size() of a freed block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(100);

	drop(p);
	judge(malloc_usable_size(keep(p)) != 0 ? "said to be a block" : NULL,
	    100);
}
