/* A page into a block of 9 MiB. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(9 * MIB);

	own(p, 9 * MIB);
	drop(p + 4096);
	judge(NULL, 9 * MIB);
}
