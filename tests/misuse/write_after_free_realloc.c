/* The old address written to after realloc() has moved the block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);
	char *q = (char *)keep(realloc(p, 5000));

	check(q != NULL);
	own(q, 5000);
	scribble(p, 64);
	judge(NULL, 64);
}
