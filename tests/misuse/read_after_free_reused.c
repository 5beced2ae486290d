/* Another's data read through the pointer of an earlier owner. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);

	drop(p);
	char *q = next_owner(p, 64);
	if (q != NULL)
		scribble(q, 64);
	bool seen = sees_secret(p, 64);
	if (q != NULL)
		put_bytes(q, CONTENT, 64);
	judge(seen ? "another's data was read" : NULL, 64);
}
