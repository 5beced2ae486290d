/* 2 KiB into a block of 5000. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(5000);

	own(p, 5000);
	drop(p + 2048);
	judge(NULL, 5000);
}
