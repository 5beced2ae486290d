/* One byte past a block of 5000. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(5000, malloc, CONTENT);

	scribble(p + 5000, 1);
	judge_row();
}
