/* bulk.h - many objects of a cache, for files that need them; see bulk.c */
#ifndef UMEM_BULK_H
#define UMEM_BULK_H

#include "umem/umem.h"

/*
 * Gets up to n objects, and asks for a reclaim of memory if it falls short.
 * Returns how many there are.  They do not count as objects in use, and memory
 * checkers are not told.
 */
size_t bulk_get(umem_cache_t *cache, size_t n, void **objects, int flags);

/*
 * Gets n objects, which count, or none: one attempt without UMEM_NOFAIL and
 * umem_setmtbf().  Returns 0 or the error.
 */
int bulk_get_all(
    umem_cache_t *cache, size_t n, void **objects, int flags, const char *api);

/* Frees n objects that count.  Messages name the API function api. */
void bulk_put(
    umem_cache_t *cache, size_t n, void *const *objects, const char *api);

#endif
