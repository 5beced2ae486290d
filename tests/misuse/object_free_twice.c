/* An object freed twice. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	void *p = get(64), *q = get(64);

	put(p);
	put(q);
	put(p);
	judge_by(NULL, 64, get);
}
