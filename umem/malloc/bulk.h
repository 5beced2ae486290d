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

#endif
