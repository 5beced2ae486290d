/* A block of no bytes freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(malloc(0));

	drop(p);
	drop(p);
	judge(NULL, 0);
}
