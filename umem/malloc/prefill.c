/*
 * prefill.c - objects that are allocated ahead, for code that must not fail
 *
 * A handle holds objects of one cache in an array.  umem_prefill_alloc() takes
 * the last one: no lock, no restartable section, no failure.  The handle
 * belongs to one thread at a time, so its words are plain ones.
 *
 * Memory
 *	The handle and its array are blocks of umem_alloc(), not structures of
 *	the library, because a search for leaks (umem leaks, memcheck) has to
 *	come from the program's pointer to the handle, and from there to the
 *	objects.  A handle that is lost is a leak, and so are its objects.
 *	The word of an object that was handed out is cleared.  Otherwise the
 *	array would keep an object that the program has lost from being found.
 *
 * Objects whose allocation is recorded (reserved.h)
 *	top stays at bottom for them, so that every umem_prefill_alloc() takes
 *	the slow path, which tells the record.
 *
 * Always true: objects <= top <= end <= objects + capacity, and top is either
 * end or, if the objects are recorded, objects.
 *
 * Source: prefilled sheaves of Linux 6.18 (kmem_cache_prefill_sheaf()).
 */
#include <errno.h>
#include <string.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/debug/reserved.h"
#include "umem/malloc/bulk.h"
#include "umem/malloc/nofail.h"
#include "vmem/panic.h"

/* Keys: [I] set at creation; the rest belongs to the handle's owner. */
struct umem_prefill {
	void **top;          /* behind the next object of the fast path */
	void **objects;      /* the array, or NULL */
	void **end;          /* behind the last object */
	size_t capacity;     /* of the array, in objects */
	umem_cache_t *cache; /* [I] NULL: the handle was released */
	bool recorded;       /* [I] as reserved_is_recorded() */
};

/* Asserts what is always true of a handle in use; see the top. */
static inline void
prefill_check(const umem_prefill_t *p)
{
	umem_assert(p->cache != NULL);
	umem_assert(p->objects <= p->end);
	umem_assert((size_t)(p->end - p->objects) <= p->capacity);
	umem_assert(p->top == (p->recorded ? p->objects : p->end));
}

static void
prefill_set_count(umem_prefill_t *p, size_t n)
{
	p->end = p->objects + n;
	p->top = p->recorded ? p->objects : p->end;
	prefill_check(p);
}

static inline size_t
prefill_count(const umem_prefill_t *p)
{
	return (size_t)(p->end - p->objects);
}

/* An array for n objects; NULL: no memory, and errno is ENOMEM. */
static void **
prefill_array_alloc(size_t n)
{
	if (n <= PTRDIFF_MAX / sizeof(void *))
		return alloc_sized_once(n * sizeof(void *));
	errno = ENOMEM;
	return NULL;
}

static void
prefill_array_free(void **array, size_t n)
{
	if (n != 0)
		umem_free(array, n * sizeof(void *));
}

/* Gets objects for the words of an array.  Returns 0, or the error. */
static int
prefill_get_objects(umem_prefill_t *p, void **objects, size_t n, int flags)
{
	int error =
	    bulk_get_all(p->cache, n, objects, flags, "umem_cache_prefill");

	if (error == 0 && p->recorded)
		reserved_add(p->cache, objects, n);
	return error;
}

/* A larger array with the objects of the handle and more. */
static int
prefill_grow(umem_prefill_t *p, size_t n, int flags)
{
	size_t nold = prefill_count(p);
	void **array = prefill_array_alloc(n);
	int error;

	umem_assert(n > p->capacity);
	if (array == NULL)
		return ENOMEM;
	error = prefill_get_objects(p, array + nold, n - nold, flags);
	if (error != 0) {
		prefill_array_free(array, n);
		return error;
	}
	if (nold != 0)
		memcpy(array, p->objects, nold * sizeof(void *));
	prefill_array_free(p->objects, p->capacity);
	p->objects = array;
	p->capacity = n;
	return 0;
}

/*
 * The handle has n objects afterwards, or it is as it was, and the result is an
 * error.  n is above its count.
 */
static int
prefill_try_refill(umem_prefill_t *p, size_t n, int flags)
{
	size_t nold = prefill_count(p);
	int error;

	umem_assert(n > nold);
	if (n > p->capacity)
		error = prefill_grow(p, n, flags);
	else
		error = prefill_get_objects(p, p->end, n - nold, flags);
	if (error == 0)
		prefill_set_count(p, n);
	return error;
}

static int
prefill_try_create(
    umem_cache_t *cache, size_t n, int flags, umem_prefill_t **handle)
{
	umem_prefill_t *p = alloc_sized_once(sizeof(*p));
	int error;

	if (p == NULL)
		return ENOMEM;
	*p = (umem_prefill_t){
	    .cache = cache, .recorded = reserved_is_recorded(cache)};
	error = n == 0 ? 0 : prefill_try_refill(p, n, flags);
	if (error == 0)
		*handle = p;
	else
		umem_free(p, sizeof(*p));
	return error;
}

public umem_prefill_t *
umem_cache_prefill(umem_cache_t *cache, size_t n, int flags)
{
	umem_prefill_t *p;
	int error;

	if (mtbf_must_fail(flags, cache, cache->bufsize))
		return NULL;
	while ((error = prefill_try_create(cache, n, flags, &p)) != 0)
		if (!nofail_retry(flags))
			return alloc_failed_by(error, cache);
	return p;
}

public int
umem_prefill_refill(umem_prefill_t *p, size_t n, int flags)
{
	umem_cache_t *cache = p->cache;
	int error;

	if (unlikely(cache == NULL))
		panic(
		    "umem_prefill_refill(%p): handle was released", (void *)p);
	if (n <= prefill_count(p))
		return 0;
	if (mtbf_must_fail(flags, cache, cache->bufsize))
		return -1;
	while ((error = prefill_try_refill(p, n, flags)) != 0)
		if (!nofail_retry(flags)) {
			alloc_failed_by(error, cache);
			return -1;
		}
	return 0;
}

/* The handle is empty, or its objects are recorded. */
static noinline void *
prefill_alloc_slow(umem_prefill_t *p)
{
	void *object;

	if (unlikely(p->cache == NULL))
		panic("umem_prefill_alloc(%p): handle was released", (void *)p);
	if (p->end == p->objects) {
		errno = ENOMEM;
		return NULL;
	}
	object = *--p->end;
	*p->end = NULL;
	reserved_hand_out(p->cache, object);
	prefill_check(p);
	return object;
}

public void *
umem_prefill_alloc(umem_prefill_t *p)
{
	void **top = p->top;
	void *object;

	if (unlikely(top == p->objects))
		return prefill_alloc_slow(p);
	object = *--top;
	*top = NULL;
	p->top = p->end = top;
	prefill_check(p);
	return object;
}

public size_t
umem_prefill_count(const umem_prefill_t *p)
{
	return prefill_count(p);
}

public void
umem_prefill_release(umem_prefill_t *p)
{
	size_t n;

	if (p == NULL)
		return;
	if (unlikely(p->cache == NULL))
		panic(
		    "umem_prefill_release(%p): handle was released", (void *)p);
	n = prefill_count(p);
	prefill_check(p);
	if (n != 0) {
		if (p->recorded)
			reserved_remove(p->cache, p->objects, n);
		bulk_put(p->cache, n, p->objects, "umem_prefill_release");
	}
	prefill_array_free(p->objects, p->capacity);
	/* For a later use of the handle, while no other block is there. */
	*p = (umem_prefill_t){.cache = NULL};
	umem_free(p, sizeof(*p));
}
