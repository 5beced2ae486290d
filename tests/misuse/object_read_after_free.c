/* An object read after it was freed. */
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

	scribble(p, 64);
	put(p);
	judge_by(
	    sees_secret(p, 64) ? "read after it was freed" : NULL, 64, get);
}
