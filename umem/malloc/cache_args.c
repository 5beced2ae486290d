/*
 * cache_args.c - caches from a structure of attributes; destruction, size,
 * name, zeros
 *
 * umem_cache_create() has nine arguments, and more attributes would need a new
 * function each time.  struct umem_cache_args grows instead.  The caller tells
 * the size that it was compiled with, so that either side may be the older:
 *
 *	a smaller structure	the attributes that it lacks are 0, the default
 *	a larger one		is accepted if every attribute that this library
 *				does not know is 0.  Otherwise the call fails,
 *				because the library cannot provide it
 *
 * Source: the rule for sizes is that of openat2(2) and sched_setattr(2); the
 * functions are Linux's kmem_cache_size(), kmem_cache_zalloc() and so on.
 */
#include <errno.h>
#include <string.h>

#include "umem/cache/cache.h"
#include "umem/cache/cache_hooks.h"

/* The first structure that a program could be compiled with. */
#define ARGS_FIRST 80

_Static_assert(sizeof(struct umem_cache_args) == ARGS_FIRST,
    "a program of the first version passes this size");

static bool
is_zero(const char *at, size_t bytes)
{
	while (bytes > 0)
		if (at[--bytes] != 0)
			return false;
	return true;
}

public umem_cache_t *
umem_cache_create_args(
    const char *name, const struct umem_cache_args *args, size_t args_size)
{
	struct umem_cache_args known = {0};
	umem_cache_t *cache;
	size_t more;

	if (args == NULL || args_size < ARGS_FIRST)
		return fail_null(EINVAL);
	more = args_size > sizeof(known) ? args_size - sizeof(known) : 0;
	memcpy(&known, args, args_size - more);
	if (known.limit_wait < -1 ||
	    !is_zero((const char *)args + sizeof(known), more))
		return fail_null(EINVAL);
	cache = umem_cache_create(name, known.size, known.align,
	    known.constructor, known.destructor, known.reclaim, known.priv,
	    known.source, known.cflags);
	if (cache == NULL)
		return NULL;
	limit_start(cache, &known);
	if (known.reserve == 0 ||
	    umem_cache_set_reserve(cache, known.reserve) == 0)
		return cache;
	umem_cache_destroy(cache);
	return fail_null(ENOMEM);
}

public void
umem_cache_destroy(umem_cache_t *cache)
{
	if (cache == NULL)
		return;
	reserve_end(cache);
	cache_destroy(cache);
}

public size_t
umem_cache_size(const umem_cache_t *cache)
{
	return cache->bufsize;
}

public const char *
umem_cache_name(const umem_cache_t *cache)
{
	return cache->name;
}

public void *
umem_cache_zalloc(umem_cache_t *cache, int flags)
{
	void *object;

	/*
	 * Zeros would destroy a constructed state, identifiers are no memory,
	 * and readers may look at an object that is type-stable.
	 */
	if (cache->construct != NULL ||
	    (cache->flags & (UMC_NOTOUCH | UMC_TYPESAFE_BY_RCU)) != 0)
		return fail_null(EINVAL);
	object = umem_cache_alloc(cache, flags);
	return object == NULL ? NULL : memset(object, 0, cache->bufsize);
}

public int
umem_cache_shrink(umem_cache_t *cache)
{
	int saved = errno;

	cache_reap(cache);
	cache_deferral.wake();
	errno = saved;
	/* The slabs of an import cache count only the objects in use. */
	return slab_total(&cache->slabs) + slab_used(&cache->slabs) != 0 ||
	       load_relaxed(&cache->nsamples) != 0;
}
