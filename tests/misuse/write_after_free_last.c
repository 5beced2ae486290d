/* The last word of a block of 64 written after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);

	drop(p);
	scribble(p + 56, 8);
	judge(NULL, 64);
}
