/* Moved by realloc(), and the old address freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);
	char *q = (char *)keep(realloc(p, 5000));

	check(q != NULL);
	own(q, 5000);
	drop(p);
	judge(NULL, 40);
}
