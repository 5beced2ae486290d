/* realloc() of the middle of a block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(100);

	own(p, 100);
	own(realloc(keep(p + 48), 200), 200);
	judge(NULL, 100);
}
