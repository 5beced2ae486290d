/* A page read past a block of 9 MiB. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(9 * MIB, malloc, SECRET);

	put_bytes(p, CONTENT, 9 * MIB);
	judge(sees_secret(p + 9 * MIB, 4096) ? "another's data was read" : NULL,
	    9 * MIB);
}
