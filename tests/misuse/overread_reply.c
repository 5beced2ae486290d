/* A reply of 1000 bytes from a request of 80. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(80, malloc, SECRET);

	put_bytes(p, CONTENT, 80);
	judge(sees_secret(p + 80, 920) ? "another's data was read" : NULL, 80);
}
