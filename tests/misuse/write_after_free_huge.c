/* The first page of a block of 20 MiB written after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(20 * MIB);

	drop(p);
	scribble(p, 4096);
	judge(NULL, 20 * MIB);
}
