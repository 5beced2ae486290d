/* The old address read after realloc() has moved the block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(64);
	char *q = (char *)keep(realloc(p, 5000));

	check(q != NULL);
	put_bytes(q, CONTENT, 64);
	judge(sees_secret(p, 64) ? "read after it was freed" : NULL, 64);
}
