/*
 * alloc_sized.c - umem_alloc() and its relatives: the caller passes the size
 * again to free a block
 */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/base/checker.h"
#include "umem/base/large.h"
#include "umem/debug/debug.h"
#include "umem/cache/misuse.h"
#include "umem/malloc/nofail.h"

size_t alloc_zero_bytes;

void *
alloc_sized_once(size_t size, size_t align, bool zero)
{
	void *p;

	umem_assert(align == 0 || is_pow2(align));
	if (unlikely(alloc_fast.small_end == 0))
		p = alloc_exempt(size, align, zero);
	else if (align != 0)
		p = alloc_get_aligned(size, align);
	else
		p = zero ? alloc_get_zeroed(size) : alloc_get(size);
	if (unlikely(debug.on) && p != NULL)
		debug_set_api(p, API_UMEM);
	if (unlikely(checker_on) && p != NULL && !debug.on)
		checker_block(p, size, alloc_usable(p, "umem_alloc"), zero);
	return p;
}

/*
 * A request for 0 bytes returns NULL, which is no failure, unless an option
 * asks for a block.
 */
static noinline void *
sized_alloc(size_t size, size_t align, int flags, bool zero)
{
	int saved = errno;
	void *p;

	if (size == 0)
		size = alloc_zero_bytes;
	if (unlikely(size == 0))
		return NULL;
	/* While umem_setmtbf() is in force, small_end is 0. */
	if (unlikely(alloc_fast.small_end == 0) &&
	    mtbf_must_fail(
		flags, class_cache_if_made(size_class_of(size)), size))
		return NULL;
	do
		p = alloc_sized_once(size, align, zero);
	while (unlikely(p == NULL) && nofail_retry(flags));
	if (likely(p != NULL))
		errno = saved;
	return p;
}

public void *
umem_alloc(size_t size, int flags)
{
	void *p;

	/* The headers of the fast paths refuse while blocks have checks. */
	if (likely(size != 0) && alloc_get_fast(size, &p))
		return p;
	return sized_alloc(size, 0, flags, false);
}

public void *
umem_zalloc(size_t size, int flags)
{
	void *p;

	if (likely(size != 0) && alloc_get_fast(size, &p))
		return memset(p, 0, size);
	return sized_alloc(size, 0, flags, true);
}

bool
alloc_size_matches(const void *p, unsigned class, size_t bytes, size_t size)
{
	unsigned own = size_class_of(size);

	if (class == CLASS_SAMPLE)
		class = alloc_sample_class(p);
	if (class == PAGE_MAP_LARGE)
		return align_up(size, HEAP_UNIT) == bytes;
	if (size > SIZE_SMALL && own != 0)
		return class - own <= LARGER_CLASSES;
	return own == class && size != 0;
}

/*
 * Frees a block off the fast path.  An aligned block may be in a chunk of any
 * class that is large enough.
 */
static noinline void
sized_free_slow(void *p, size_t size, bool is_aligned, const char *api)
{
	size_t bytes;
	unsigned class;

	if (size == 0)
		size = alloc_zero_bytes;
	class = alloc_block_to_free(p, size, API_UMEM, &bytes, api);
	if (class == 0)
		return;
	if (is_aligned ? size - 1 >= bytes
		       : !alloc_size_matches(p, class, bytes, size))
		misuse_size(api, p, size);
	if (unlikely(checker_on) && !debug.on)
		checker_block_end(p, bytes);
	alloc_free(p);
}

public void
umem_free(const void *buf, size_t size)
{
	void *p = (void *)(uintptr_t)buf;
	uint64_t entry;

	/* size - 1 sends size 0 to the slow path. */
	if (!alloc_map_entry(p, &entry) || unlikely(size - 1 >= SIZE_SMALL) ||
	    !alloc_push_small(p, size, entry))
		sized_free_slow(p, size, /* is_aligned */ false, "umem_free");
}

public void *
umem_alloc_align(size_t size, size_t align, int flags)
{
	if (is_pow2(align))
		return sized_alloc(size, align, flags, false);
	return fail_null(EINVAL);
}

public void
umem_free_align(void *buf, size_t size)
{
	sized_free_slow(buf, size, /* is_aligned */ true, "umem_free_align");
}

public __typeof__(umem_alloc_align) umem_alloc_aligned
    __attribute__((alias("umem_alloc_align")));
public __typeof__(umem_free_align) umem_free_aligned
    __attribute__((alias("umem_free_align")));

public size_t
umem_good_size(size_t size)
{
	size_t bytes = size == 0 ? 0 : alloc_round(size, 1);

	return bytes > size ? bytes : size;
}

public void *
umem_realloc(void *buf, size_t old, size_t size, int flags)
{
	void *p = NULL;

	/* Blocks of two small classes are always copied. */
	if (old != 0 && ((old | size) >= SIZE_SMALL ||
			    size_class_small(old) == size_class_small(size)))
		p = alloc_resize_exact(buf, old, size);
	if (p != NULL)
		return p;
	p = umem_alloc(size, flags);
	if (p == NULL && size != 0)
		return NULL;
	if (p != NULL && buf != NULL)
		large_copy(p, buf, old < size ? old : size);
	umem_free(buf, old);
	return p;
}
