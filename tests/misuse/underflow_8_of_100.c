/* The word before a block of 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	scribble(p - 8, 8);
	judge_row();
}
