/* A word past an object. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	char *p = row_of(64, get, CONTENT);

	scribble(p + 64, 8);
	judge_row_by(get, put);
}
