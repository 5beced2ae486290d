/* A word that skips 100 bytes past a block of 5000. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(5000, malloc, CONTENT);

	scribble(p + 5100, 8);
	judge_row();
}
