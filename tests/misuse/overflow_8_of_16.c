/* A word past a block of 16. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(16, malloc, CONTENT);

	scribble(p + 16, 8);
	judge_row();
}
