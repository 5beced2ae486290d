/* One byte past a block of 9 MiB. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(9 * MIB, malloc, CONTENT);

	scribble(p + 9 * MIB, 1);
	judge_row();
}
