/* free_sized() of a block of 9 MiB with 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(9 * MIB);

	need(free_sized);
	free_sized(p, 100);
	also_search(9 * MIB);
	judge(NULL, 100);
}
