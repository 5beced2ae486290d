/* A variable freed to a cache. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	static uint64_t p[8];

	own(p, sizeof(p));
	put(p);
	judge_by(NULL, 64, get);
}
