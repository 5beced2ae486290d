/*
 * malloc.c - the C library's allocation functions
 *
 * The functions here handle arguments and errno only; alloc.h does the rest.
 * umem/stats/mallinfo.c has mallinfo() and its relatives.  The manual of glibc
 * ("Replacing malloc") says which functions must be replaced together.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "umem/malloc/alloc.h"
#include "umem/malloc/replaced.h"
#include "umem/debug/debug.h"
#include "umem/upkeep/update.h"
#include "vmem/os.h"

/*
 * The system headers declare some of these functions differently from the ABI,
 * or not at all.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Of mallopt(); glibc's number where another libc has none. */
#ifndef M_TRIM_THRESHOLD
#define M_TRIM_THRESHOLD (-1)
#endif

REPLACEABLE_HERE(malloc);
REPLACEABLE_HERE(realloc);
REPLACEABLE_HERE(free);
REPLACEABLE_HERE(aligned_alloc);
REPLACEABLE_HERE(malloc_usable_size);

public void *
malloc(size_t size)
{
	return alloc_get(size);
}

public void
free(void *p)
{
	alloc_free(p);
}

/* SIZE_MAX, for which there is no memory, if the product is even larger. */
static inline size_t
array_bytes(size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes;
}

public void *
calloc(size_t n, size_t size)
{
	return alloc_get_zeroed(array_bytes(n, size));
}

public void *
realloc(void *p, size_t size)
{
	if (p == NULL)
		return alloc_get(size);
	if (size != 0)
		return alloc_resize(p, size);
	alloc_free(p);
	return NULL;
}

/* realloc() may be the program's, as malloc() may that has allocated p. */
public void *
reallocarray(void *p, size_t n, size_t size)
{
	return realloc(p, array_bytes(n, size));
}

/*
 * Like glibc, rounds an alignment that is no power of two up to the next one.
 * If there is none, the error is EINVAL; for larger alignments than memory can
 * provide it is ENOMEM.
 */
public void *
memalign(size_t align, size_t size)
{
	if (align > SIZE_MAX / 2 + 1)
		return fail_null(EINVAL);
	if (!is_pow2(align))
		align = align == 0 ? 1 : (size_t)2 << highbit(align);
	return alloc_get_aligned(size, align);
}

public void *
aligned_alloc(size_t align, size_t size)
{
	if (!is_pow2(align))
		return fail_null(EINVAL);
	return alloc_get_aligned(size, align);
}

/* Like glibc, sets errno to ENOMEM, too, when it returns ENOMEM. */
public int
posix_memalign(void **out, size_t align, size_t size)
{
	void *p;

	if (!is_pow2(align) || align % sizeof(void *) != 0)
		return EINVAL;
	p = alloc_get_aligned(size, align);
	if (unlikely(p == NULL))
		return ENOMEM;
	*out = p;
	return 0;
}

public void *
valloc(size_t size)
{
	return alloc_aligned(size, os_page_size());
}

public void *
pvalloc(size_t size)
{
	size_t bytes = align_up(size, os_page_size());

	if (bytes < size)
		return fail_null(ENOMEM);
	return alloc_aligned(
	    bytes == 0 ? os_page_size() : bytes, os_page_size());
}

public size_t
malloc_usable_size(void *p)
{
	return p == NULL ? 0 : alloc_usable(p, "malloc_usable_size");
}

public void
cfree(void *p)
{
	free(p);
}

public void
free_sized(void *p, size_t size)
{
	if (is_replaced(free))
		free(p);
	else if (!alloc_free_sized_fast(p, size))
		alloc_free_sized(p, size, API_MALLOC, "free_sized");
}

public void
free_aligned_sized(void *p, size_t align, size_t size)
{
	if (is_replaced(aligned_alloc))
		free(p);
	else
		alloc_free_aligned(
		    p, align, size, API_MALLOC, "free_aligned_sized");
}

/* Returns 1 if memory was released to the kernel. */
public int
malloc_trim(size_t pad)
{
	int saved = errno;
	struct umem_mode mode;
	size_t bytes = 0;

	(void)pad;
	if (umem_mode(&mode, sizeof(mode)) == 0)
		bytes = update_trim();
	errno = saved;
	return bytes != 0;
}

/*
 * Accepts every parameter, although most have no effect, because no internals
 * of glibc exist here to be tuned.
 */
public int
mallopt(int param, int value)
{
	if (param == M_TRIM_THRESHOLD)
		os_purge_forbid(value < 0);
	return 1;
}

/*
 * Old programs and other libraries call these names instead of the public ones.
 * Each always is the library's own function.
 */
#define LIBC_NAME(name)                                                        \
	public extern __typeof__(name) __libc_##name                           \
	    __attribute__((alias(#name), LIKE(name)))

LIBC_NAME(malloc);
LIBC_NAME(free);
LIBC_NAME(calloc);
LIBC_NAME(realloc);
LIBC_NAME(memalign);
LIBC_NAME(valloc);
LIBC_NAME(pvalloc);
LIBC_NAME(mallopt);

public void *
__libc_reallocarray(void *p, size_t n, size_t size)
{
	return ownrealloc(p, array_bytes(n, size));
}
