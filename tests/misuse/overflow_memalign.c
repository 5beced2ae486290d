/* A word past a block of 64 on a line of its own. */
#include "tests/misuse/misuse.h"

static void *
on_line(size_t size)
{
	return memalign(64, size);
}

int
main(void)
{
	char *p = row_of(64, on_line, CONTENT);

	scribble(p + 64, 8);
	judge_row();
}
