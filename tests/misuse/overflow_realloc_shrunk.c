/* A block made smaller, and written to its old end. */
#include "tests/misuse/misuse.h"

static void *
shrunk(size_t size)
{
	return realloc(malloc(4 * size), size);
}

int
main(void)
{
	char *p = row_of(40, shrunk, CONTENT);

	scribble(p + 40, 3 * 40);
	judge_row();
}
