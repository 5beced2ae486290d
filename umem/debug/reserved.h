/*
 * reserved.h - objects that are allocated and not yet in the program's hands
 *
 * A prefill handle holds such objects for the program, and a reserve for the
 * library.  They are constructed, and no magazine and no slab has them.
 * Where single calls check or record what they do (UMEM_DEBUG, hardened, a
 * memory checker), a reserved object is like a free one to the program: a free
 * of it is misuse, and its allocation is recorded when it is handed out.
 */
#ifndef UMEM_RESERVED_H
#define UMEM_RESERVED_H

#include "umem/cache/cache.h"
#include "umem/debug/debug.h"

/* Do the functions below have to be called for objects of the cache? */
static inline bool
reserved_is_recorded(const struct umem_cache *cache)
{
	return cache->debug != 0 || cache->slabs.is_annotated;
}

/* The objects were just allocated by bulk_get(). */
void reserved_add(struct umem_cache *cache, void *const *objects, size_t n);

/*
 * The objects are to be as bulk_get() returns them, on behalf of a request of
 * the program.
 */
void reserved_allocate(
    struct umem_cache *cache, void *const *objects, size_t n);

/* An object goes to the program. */
void reserved_hand_out(struct umem_cache *cache, void *object);

/* The objects are about to be freed by bulk_put(). */
void reserved_remove(struct umem_cache *cache, void *const *objects, size_t n);

#endif
