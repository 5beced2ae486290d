/* A block of 1 MiB read after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(MIB);

	drop(p);
	judge(sees_secret(p, MIB) ? "read after it was freed" : NULL, MIB);
}
