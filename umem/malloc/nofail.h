/*
 * nofail.h - UMEM_NOFAIL requests, and failures injected for tests; see
 * nofail.c
 */
#ifndef UMEM_NOFAIL_H
#define UMEM_NOFAIL_H

#include "umem/umem.h"
#include "vmem/base.h"

/*
 * Called after an allocation with these flags has failed.  Returns true if the
 * caller is to try again, false if the allocation is to fail.  Calls the
 * program's callback, and does not return if that asks for exit().
 */
bool nofail_retry(int flags);

/*
 * In the child of fork(): forgets the thread that was in exit().  That thread
 * either does not exist in the child, or calls exit() again there.
 */
void nofail_after_fork(void);

extern hidden uint32_t mtbf_interval; /* [a] by umem_setmtbf(); 0: none */
bool mtbf_draw_failure(umem_cache_t *cache, size_t size);

/*
 * Should this request fail, for a test?  If so, errno is set, and the failure
 * is logged for this cache, or for no cache if cache is NULL.
 */
static inline bool
mtbf_must_fail(int flags, umem_cache_t *cache, size_t size)
{
	return unlikely(load_relaxed(&mtbf_interval) != 0) &&
	       (flags & UMEM_NOFAIL) == 0 && mtbf_draw_failure(cache, size);
}

#endif
