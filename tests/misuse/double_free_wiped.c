/* Freed twice; between, all of it was overwritten. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	drop(p);
	put_bytes(p, 0, 40);
	drop(p);
	judge(NULL, 40);
}
