/* aside.c - objects not yet in the program's hands; see aside.h */
#include "umem/debug/aside.h"

void
aside_put(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_set_aside(cache, objects[i]);
		if (cache->slabs.checked)
			slab_unhold(&cache->slabs, objects[i]);
	}
}

void
aside_allocate(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_hand_out(cache, objects[i]);
		if (cache->slabs.checked)
			slab_hold(&cache->slabs, objects[i]);
	}
}

void
aside_hand_out(struct umem_cache *cache, void *object)
{
	aside_allocate(cache, &object, 1);
	if (cache->slabs.watched)
		cache_tell_alloc(cache, object);
}

void
aside_end(struct umem_cache *cache, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cache->debug != 0)
			debug_end_aside(cache, objects[i]);
		if (cache->slabs.checked)
			slab_hold(&cache->slabs, objects[i]);
	}
}
