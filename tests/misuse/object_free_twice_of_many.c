/* 2000 objects freed, and the first of them again. */
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
	static void *made[2000];

	for (int i = 0; i < 2000; i++)
		made[i] = get(64);
	for (int i = 0; i < 2000; i++)
		put(made[i]);
	put(made[0]);
	judge_by(NULL, 64, get);
}
