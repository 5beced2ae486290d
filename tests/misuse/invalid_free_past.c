/* The end of a block of 40. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	own(p, 40);
	drop(p + 40);
	judge(NULL, 40);
}
