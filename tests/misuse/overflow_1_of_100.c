/* One byte past a block of 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	scribble(p + 100, 1);
	judge_row();
}
