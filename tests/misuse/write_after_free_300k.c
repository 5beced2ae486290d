/* A block of 300 KiB written to in its middle after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(300 * KIB);

	drop(p);
	scribble(p + 150 * KIB, 8);
	judge(NULL, 300 * KIB);
}
