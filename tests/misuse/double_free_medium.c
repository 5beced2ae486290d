/* A block of 5000 freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(5000);

	drop(p);
	drop(p);
	judge(NULL, 5000);
}
