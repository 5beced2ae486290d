/* An object read after it was freed. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	char *p = (char *)get(64);

	scribble(p, 64);
	put(p);
	judge_by(
	    sees_secret(p, 64) ? "read after it was freed" : NULL, 64, get);
}
