/* A block of 40 freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	drop(p);
	drop(p);
	judge(NULL, 40);
}
