/* A block of 20 MiB read after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(20 * MIB);

	drop(p);
	judge(sees_secret(p, 20 * MIB) ? "read after it was freed" : NULL,
	    20 * MIB);
}
