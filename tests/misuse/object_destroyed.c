/* An object used after its cache has gone. */
#include "tests/misuse/misuse.h"

static umem_cache_t *cache;

static void *
get(size_t size)
{
	(void)size;
	return keep(umem_cache_alloc(cache, UMEM_DEFAULT));
}

int
main(void)
{
	need(umem_cache_create);
	cache =
	    umem_cache_create("object", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *p = (char *)get(64);

	umem_cache_destroy(cache);
	put_bytes(p, CONTENT, 64);
	own(p, 64);
	judge(NULL, 64);
}
