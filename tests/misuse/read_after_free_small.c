/* A block of 64 read after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(64);

	drop(p);
	judge(sees_secret(p, 64) ? "read after it was freed" : NULL, 64);
}
