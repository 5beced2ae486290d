/* A word that skips 24 bytes past a block of 112. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(112, malloc, CONTENT);

	scribble(p + 112 + 24, 8);
	judge_row();
}
