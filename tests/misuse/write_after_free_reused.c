/* Another's block written to by an earlier owner. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);

	drop(p);
	char *q = next_owner(p, 64);
	if (q != NULL)
		put_bytes(q, CONTENT, 64);
	scribble(p, 8);
	if (q != NULL && q[0] != CONTENT)
		judge("another block was changed", 64);
	judge(NULL, 64);
}
