/* A block of 1 MiB freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(MIB);

	drop(p);
	drop(p);
	judge(NULL, MIB);
}
