/* A block of 100 KiB read after it was freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(100 * KIB);

	drop(p);
	judge(sees_secret(p, 100 * KIB) ? "read after it was freed" : NULL,
	    100 * KIB);
}
