/* An object freed after its cache has gone. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	char *p = (char *)get(64);

	umem_cache_destroy(cache);
	put(p);
	judge(NULL, 64);
}
