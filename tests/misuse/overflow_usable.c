/* Write the byte at p[malloc_usable_size(p)], past a block of 100. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	scribble(p + malloc_usable_size(p), 1);
	judge_row();
}
