/* free_sized() of a block of 100 with 1000. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	need(free_sized);
	own_row();
	free_sized(p, 1000);
	also_search(100);
	judge(NULL, 1000);
}
