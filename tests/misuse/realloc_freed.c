/* realloc() of a freed block to the size it had. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	drop(p);
	own(realloc(keep(p), 40), 40);
	judge(NULL, 40);
}
