/* A word that skips 3000 bytes past a block of 20 MB. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(20000000, malloc, CONTENT);

	scribble(p + 20000000 + 3000, 8);
	judge_row();
}
