/* An object freed after its cache has gone. */
#include "tests/misuse/misuse.h"

static umem_cache_t *cache;

static void *
get(size_t size)
{
	(void)size;
	return keep(umem_cache_alloc(cache, UMEM_DEFAULT));
}

static void
put(void *p)
{
	umem_cache_free(cache, keep(p));
}

int
main(void)
{
	need(umem_cache_create);
	cache =
	    umem_cache_create("object", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *p = (char *)get(64);

	umem_cache_destroy(cache);
	put(p);
	judge(NULL, 64);
}
