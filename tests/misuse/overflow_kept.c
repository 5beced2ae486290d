/* Past the end of a string of 100 bytes that is never freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	scribble(p + 100, 2);
	/* Only the others are freed. */
	row[row_victim] = block(100);
	judge_row();
}
