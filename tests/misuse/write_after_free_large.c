/* The middle of a block of 1 MiB written after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(MIB);

	drop(p);
	scribble(p + MIB / 2, 8);
	judge(NULL, MIB);
}
