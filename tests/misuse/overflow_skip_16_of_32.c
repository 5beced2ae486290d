/* A word that skips 16 bytes past a block of 32. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(32, malloc, CONTENT);

	scribble(p + 48, 8);
	judge_row();
}
