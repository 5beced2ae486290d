/* An object written to after it was freed. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	char *p = (char *)get(64);

	put_bytes(p, CONTENT, 64);
	put(p);
	scribble(p + 32, 8);
	judge_by(NULL, 64, get);
}
