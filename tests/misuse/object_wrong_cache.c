/* An object freed to another cache. */
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
	umem_cache_t *other =
	    umem_cache_create("other", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *p = row_of(64, get, CONTENT);

	own_row();
	umem_cache_free(other, p);
	cache = other;
	judge_by(NULL, 200, get);
}
