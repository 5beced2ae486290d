/* An object given to free(). */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	void *p = get(64);

	drop(p);
	judge_by(NULL, 64, get);
}
