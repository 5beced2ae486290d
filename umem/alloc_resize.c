/*
 * alloc_resize.c - another size for a block
 *
 * A block stays where it is while its chunk is good enough, or while shrink.c
 * knows that it will want to be large again; large ones grow and move as
 * large.c can.  Else it is copied.
 */
#include <errno.h>

#include "umem/alloc_inner.h"
#include "umem/debug.h"
#include "umem/ready.h"
#include "umem/large.h"
#include "umem/misuse.h"
#include "umem/sample.h"
#include "umem/shrink.h"
#include "umem/update.h"

/*
 * Is the block's own chunk good enough for size?  A smaller size keeps it
 * while it is at least half used.
 */
static bool
stays(size_t bytes, size_t size)
{
	return size <= bytes && (size > bytes / 2 || bytes <= 64);
}

/*
 * [a] Some block may be larger than its size asks for, and stays() with it.
 * A sized free of less than a block's class is misuse as long as none is.
 */
static bool loose;

static void *
left_larger(void *p)
{
	if (!__atomic_load_n(&loose, __ATOMIC_RELAXED))
		__atomic_store_n(&loose, true, __ATOMIC_RELAXED);
	return p;
}

/* May a block of so many bytes have been asked for, or resized, with size? */
bool
alloc_fits(unsigned class, size_t bytes, size_t size)
{
	if (size <= bytes && __atomic_load_n(&loose, __ATOMIC_RELAXED))
		return true;
	return class == ADDR_LARGE
		   ? align_up(size, HEAP_UNIT) == bytes || stays(bytes, size)
		   : size_class_of(size) == class || stays(bytes, size);
}

static void *
resize_by_copy(void *p, size_t bytes, size_t size)
{
	void *q = alloc_get(size);

	/* Nobody expects that making a block smaller may fail. */
	if (q == NULL)
		return size <= bytes ? left_larger(p) : NULL;
	large_copy(q, p, bytes < size ? bytes : size);
	alloc_free(p);
	return q;
}

/* Samples are taken, and debugging is done, where blocks are allocated. */
static noinline void *
grow_large(void *p, size_t bytes, size_t size)
{
	void *q = NULL;

	if (!sample_is_on() && !debug_large())
		q = large_from(p, bytes, size);
	if (q == NULL)
		return resize_by_copy(p, bytes, size);
	alloc_free(p);
	return q;
}

static noinline void *
resize_smaller(void *p, size_t bytes, size_t size)
{
	void *q;

	if (shrink_stays(bytes, size))
		return left_larger(p);
	q = resize_by_copy(p, bytes, size);
	if (q != p)
		shrink_moved(p, bytes, q, bytes - size);
	return q;
}

/* A block of a class, or one that is to be of a class. */
static inline void *
resize_class(void *p, size_t bytes, size_t size)
{
	size_t had;
	void *q;

	if (stays(bytes, size))
		return p;
	if (unlikely(size <= bytes))
		return resize_smaller(p, bytes, size);
	had = shrink_grows(p, size);
	q = likely(had <= LARGE_GROWN) ? resize_by_copy(p, bytes, had)
				       : grow_large(p, bytes, had);
	return likely(had == size) ? q : left_larger(q);
}

/* A large one grows as other large ones do, and stays a sample. */
static void *
resize_sample(void *p, size_t bytes, size_t size)
{
	uint32_t index = alloc_sample_of(p);
	void *q;

	if (bytes <= SIZE_CLASS_MAX || size <= SIZE_CLASS_MAX) {
		q = resize_class(p, bytes, size);
		if (q == p)
			sample_stays(index, size);
		return q;
	}
	q = sample_resize(index, size);
	for (unsigned i = 0;
	     q == NULL && update_reclaim(size, i, /* may_call */ false); i++)
		q = sample_resize(index, size);
	return q != NULL ? q : alloc_no_memory(size);
}

/* In the same chunk, or to another; anew, if that is the only way. */
static void *
resize_debugged(unsigned class, void *p, size_t size)
{
	size_t old = class == 0 ? SIZE_MAX : debug_usable(class, p);

	if (old == SIZE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	if (old == size ||
	    (class == ADDR_LARGE && size > SIZE_SMALL &&
		debug_large_resize(p, size)) ||
	    (class != ADDR_LARGE && size <= SIZE_CLASS_MAX &&
		size_class_of(size) == class && debug_resize(class, p, size)))
		return p;
	return resize_by_copy(p, old, size);
}

/* Perhaps before memcpy() can be called. */
static void *
resize_boot(const char *p, size_t size)
{
	size_t bytes = boot_usable(p) < size ? boot_usable(p) : size;
	char *q = alloc_get(size);

	for (size_t i = 0; q != NULL && i < bytes; i++)
		((volatile char *)q)[i] = p[i];
	return q;
}

static noinline void *
resize_slow(void *p, size_t size)
{
	size_t bytes;
	unsigned class;

	if (size > PTRDIFF_MAX)
		return alloc_no_memory(size);
	if (boot_owns(p))
		return resize_boot(p, size);
	if (unlikely(!umem_ready()))
		misuse("realloc", p, "not an address of the heap");
	class = alloc_block_in_use(p, &bytes, "realloc");
	if (unlikely(class == CLASS_SAMPLE))
		return resize_sample(p, bytes, size);
	if (unlikely(debug.on) && (class == 0 || debug_owns(class)))
		return resize_debugged(class, p, size);
	if (class != ADDR_LARGE || size <= LARGE_GROWN)
		return resize_class(p, bytes, size);
	void *q = large_resize(p, bytes, size);
	for (unsigned i = 0;
	     q == NULL && update_reclaim(size, i, /* may_call */ false); i++)
		q = large_resize(p, bytes, size);
	if (q == p && size < bytes)
		left_larger(p);
	return q != NULL ? q : alloc_no_memory(size);
}

void *
alloc_resize(void *p, size_t size)
{
	unsigned class = likely(size <= SIZE_SMALL) ? alloc_class_at(p) : 0;

	if (likely(class != 0))
		return resize_class(p, size_classes.bytes[class], size);
	return resize_slow(p, size);
}
