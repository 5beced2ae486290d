/* free_sized() of a block of 1000 with 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(1000);

	need(free_sized);
	free_sized(p, 100);
	also_search(1000);
	judge(NULL, 100);
}
