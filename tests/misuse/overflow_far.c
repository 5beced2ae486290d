/* A wrong index, so that the write lands in the block after next. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(64, malloc, CONTENT);

	scribble(p + 2 * (row[row_victim + 1] - p), 8);
	judge_row();
}
