/* object.h - a cache for the programs that misuse its objects of 64 bytes */
#ifndef TESTS_MISUSE_OBJECT_H
#define TESTS_MISUSE_OBJECT_H

#include "tests/misuse/misuse.h"

static umem_cache_t *cache;

static inline void *
get(size_t size)
{
	(void)size;
	return keep(umem_cache_alloc(cache, UMEM_DEFAULT));
}

static inline void
put(void *p)
{
	umem_cache_free(cache, keep(p));
}

static inline umem_cache_t *
object_cache(void)
{
	need(umem_cache_create);
	return umem_cache_create(
	    "object", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
}

#endif
