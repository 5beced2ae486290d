/* One byte past a block of 8. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(8, malloc, CONTENT);

	scribble(p + 8, 1);
	judge_row();
}
