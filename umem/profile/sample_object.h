/* sample_object.h - samples among the objects of caches; see sample_object.c */
#ifndef UMEM_SAMPLE_OBJECT_H
#define UMEM_SAMPLE_OBJECT_H

#include "umem/cache/cache.h"
#include "umem/profile/sample.h"

/* May samples be among the objects that the program holds? */
static inline bool
cache_is_sampled(const struct umem_cache *cache)
{
	return load_relaxed(&cache->is_sampled);
}

/*
 * Counts an object that was just allocated from the cache by a slow path.
 * Returns the object, or a sample that takes its place; then the object is
 * free.  May call the constructor.
 */
void *sample_object_instead_slow(struct umem_cache *cache, void *object);

static inline void *
sample_object_instead(struct umem_cache *cache, void *object)
{
	if (likely(!sample_is_on()) && likely(!cache_is_sampled(cache)))
		return object;
	return sample_object_instead_slow(cache, object);
}

/*
 * Frees an object of the cache if it is a sample; otherwise returns false.  May
 * call the destructor.  Messages name api, the function that the program
 * called.  The cache may have been destroyed if the object waited for readers;
 * for a free by the program, the caller checks that it was not.
 */
bool sample_object_free_slow(
    struct umem_cache *cache, void *object, const char *api);

static inline bool
sample_object_free(struct umem_cache *cache, void *object, const char *api)
{
	return unlikely(cache_is_sampled(cache)) &&
	       sample_object_free_slow(cache, object, api);
}

/*
 * Is p, which the program has passed as an object of the cache, a sample?  If
 * it is one of another cache, or a block, the caller reports misuse.
 */
bool sample_is_object_of(const struct umem_cache *cache, const void *p);

/* No object of the cache becomes a sample after this. */
void sample_object_exclude(struct umem_cache *cache);

#endif
