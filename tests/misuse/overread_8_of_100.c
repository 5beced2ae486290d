/* A word read past a block of 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, SECRET);

	put_bytes(p, CONTENT, 100);
	judge(sees_secret(p + 100, 8) ? "another's data was read" : NULL, 100);
}
