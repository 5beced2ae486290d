/* A block of 20 MiB freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(20 * MIB);

	drop(p);
	drop(p);
	judge(NULL, 20 * MIB);
}
