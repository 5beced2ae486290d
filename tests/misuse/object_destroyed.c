/* An object used after its cache has gone. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	char *p = (char *)get(64);

	umem_cache_destroy(cache);
	put_bytes(p, CONTENT, 64);
	own(p, 64);
	judge(NULL, 64);
}
