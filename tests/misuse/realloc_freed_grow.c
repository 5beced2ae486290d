/* realloc() of a freed block to a larger size. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(40);

	drop(p);
	char *q = (char *)keep(realloc(keep(p), 5000));
	own(q, 5000);
	judge(
	    q != NULL && sees_secret(q, 40) ? "read after it was freed" : NULL,
	    40);
}
