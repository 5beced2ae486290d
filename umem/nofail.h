/* nofail.h - what happens when an allocation must not fail; failure at will */
#ifndef UMEM_NOFAIL_H
#define UMEM_NOFAIL_H

#include "umem/umem.h"
#include "vmem/base.h"

/*
 * An allocation with these flags has failed.  True: try again.  False: let it
 * fail.  May not return at all, and calls the program's callback.
 */
bool nofail_again(int flags);

/* In the child of fork(): who was in exit() is not there, or goes there anew. */
void nofail_after_fork(void);

extern uint32_t mtbf_interval; /* [a] of umem_setmtbf() */
bool mtbf_draw(umem_cache_t *cache, size_t size);

/*
 * Should this request fail, for a test?  Then errno is set, and it is logged as
 * one of this cache's, or of none.
 */
static inline bool
mtbf_strikes(int flags, umem_cache_t *cache, size_t size)
{
	return unlikely(
		   __atomic_load_n(&mtbf_interval, __ATOMIC_RELAXED) != 0) &&
	       (flags & UMEM_NOFAIL) == 0 && mtbf_draw(cache, size);
}

#endif
