/* reserved.c - objects not yet in the program's hands; see reserved.h */
#include "umem/debug/reserved.h"

void
reserved_add(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_reserve(cache, objects[i]);
	}
}

void
reserved_allocate(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_hand_out(cache, objects[i]);
	}
}

void
reserved_hand_out(struct umem_cache *cache, void *object)
{
	reserved_allocate(cache, &object, 1);
	if (cache->slabs.is_annotated)
		cache_tell_alloc(cache, object);
}

void
reserved_remove(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_unreserve(cache, objects[i]);
	}
}
