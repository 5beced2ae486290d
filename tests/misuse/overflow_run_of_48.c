/* A loop that runs 200 bytes too far. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(48, malloc, CONTENT);

	scribble(p + 48, 200);
	judge_row();
}
