/*
 * soft_limit.h - releases memory when the heap exceeds the soft limit; see
 * soft_limit.c
 */
#ifndef UMEM_SOFT_LIMIT_H
#define UMEM_SOFT_LIMIT_H

#include "vmem/base.h"

/* Does the heap exceed the soft limit?  Takes a lock if there is a limit. */
bool soft_limit_is_exceeded(void);

/* Is a release due?  Takes a lock if there is a limit. */
bool soft_limit_is_due(void);

/*
 * Does a release if one is due: idle memory of all levels, in the order of
 * soft_limit.c, at most most bytes of each.  Calls no function of the program.
 * Returns false if the heap still exceeds the limit, so that the reclaim
 * callbacks are to be called.  Only the worker may call it.
 */
bool soft_limit_release(size_t most);

#endif
