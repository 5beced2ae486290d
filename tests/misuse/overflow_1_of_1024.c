/* One byte past a block of 1024. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(1024, malloc, CONTENT);

	scribble(p + 1024, 1);
	judge_row();
}
