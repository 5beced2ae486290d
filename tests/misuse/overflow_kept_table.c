/* One entry too many in tables of 8 that live until the end. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(64, malloc, CONTENT);

	scribble(p + 64, 8);
	judge_by(row_changed(CONTENT) ? "another block was changed" : NULL,
	    row_size, malloc);
}
