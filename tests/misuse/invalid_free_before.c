/* 16 bytes before a block, where a header might be. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);

	own(p, 64);
	drop(p - 16);
	judge(NULL, 64);
}
