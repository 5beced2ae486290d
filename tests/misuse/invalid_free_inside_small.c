/* 16 bytes into a block of 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(100);

	own(p, 100);
	drop(p + 16);
	judge(NULL, 100);
}
