/*
 * allocx.c - the functions that jemalloc adds to malloc's family
 *
 * Not in libumem.  Some programs are linked with jemalloc and call
 * these beside malloc() and free(): redis-server of Debian 13, for example.
 * Blocks of the two families meet in malloc_usable_size() and free(), so a
 * library that has one family must have both.
 *
 * flags is as jemalloc has it: the logarithm of the alignment in the lowest six
 * bits, and MALLOCX_ZERO.  Its caches and arenas are ignored, because they
 * choose a place and change nothing that a program can see.  jemalloc's
 * mallctl() and its relatives stay its own.
 *
 * Source: jemalloc(3).
 */
#include <string.h>

#include "umem/debug/debug.h"
#include "umem/malloc/alloc.h"
#include "umem/malloc/replaced.h"

/* No header of the C library has these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define ALLOCX_ALIGN_BITS 63
#define ALLOCX_ZERO       0x40

static size_t
allocx_align(int flags)
{
	return (size_t)1 << (flags & ALLOCX_ALIGN_BITS);
}

static inline size_t
allocx_usable(const void *p, const char *api)
{
	if (is_replaced(malloc_usable_size))
		return malloc_usable_size((void *)(uintptr_t)p);
	return p == NULL ? 0 : alloc_usable(p, api);
}

public size_t
nallocx(size_t size, int flags)
{
	return is_replaced(malloc) ? size
				   : alloc_round(size, allocx_align(flags));
}

/*
 * The blocks of a program with an allocator of its own: these functions are
 * made of its public ones.  Without a malloc_usable_size() of its own, the
 * usable size is unknown, which is 0 here.
 */
static cold_path void *
foreign_alloc(size_t size, size_t align)
{
	return align == 1 ? malloc(size)
			  : aligned_alloc(align, align_up(size, align));
}

static cold_path void *
foreign_resize(void *p, size_t size, size_t align)
{
	void *aligned = align == 1 ? NULL : foreign_alloc(size, align), *q;

	if (align != 1 && aligned == NULL)
		return NULL;
	q = realloc(p, size);
	if (align == 1 || q == NULL) {
		free(aligned);
		return q;
	}
	memcpy(aligned, q, size);
	free(q);
	return aligned;
}

/*
 * Returns the size to request: the usable size of the block, so that a sample
 * (sample.h) has it, too.  A size that no block can have stays as it is, and
 * its request fails.
 */
static size_t
allocx_round(size_t size, int flags)
{
	size_t usable = nallocx(size, flags);

	return usable > size ? usable : size;
}

/* The zeros are up to the usable size, the boundary that rallocx() uses. */
public void *
mallocx(size_t size, int flags)
{
	size_t align = allocx_align(flags), usable, done;
	void *p;

	if (is_replaced(malloc)) {
		p = foreign_alloc(size, align);
		if (p == NULL || (flags & ALLOCX_ZERO) == 0)
			return p;
		usable = allocx_usable(p, "mallocx");
		return memset(p, 0, usable > size ? usable : size);
	}
	size = allocx_round(size, flags);
	done = align == 1 && (flags & ALLOCX_ZERO) != 0 ? size : 0;
	if (done != 0)
		p = alloc_get_zeroed(size);
	else
		p = align == 1 ? alloc_get(size)
			       : alloc_get_aligned(size, align);
	/* The block may be larger than the request (alloc.c). */
	if (p != NULL && (flags & ALLOCX_ZERO) != 0)
		memset((char *)p + done, 0, allocx_usable(p, "mallocx") - done);
	return p;
}

/* Resizes an aligned block, which alloc_resize() would not keep aligned. */
static void *
allocx_copy(void *p, size_t old, size_t size, size_t align)
{
	void *q = alloc_get_aligned(size, align);

	if (q == NULL)
		return NULL;
	memcpy(q, p, old < size ? old : size);
	alloc_free(p);
	return q;
}

public void *
rallocx(void *p, size_t size, int flags)
{
	size_t align = allocx_align(flags);
	size_t old = allocx_usable(p, "rallocx"), now;
	void *q;

	size = allocx_round(size, flags);
	if (is_replaced(realloc))
		q = foreign_resize(p, size, align);
	else
		q = align == 1 ? alloc_resize(p, size)
			       : allocx_copy(p, old, size, align);
	if (q == NULL || (flags & ALLOCX_ZERO) == 0 || old == 0)
		return q;
	now = allocx_usable(q, "rallocx");
	/* A copy has no more than size bytes of the old block. */
	if (q != p && old > size)
		old = size;
	if (now > old)
		memset((char *)q + old, 0, now - old);
	return q;
}

/* Says that the block stays as it is, which the caller must expect. */
public size_t
xallocx(void *p, size_t size, size_t extra, int flags)
{
	(void)size;
	(void)extra;
	(void)flags;
	return allocx_usable(p, "xallocx");
}

public size_t
sallocx(const void *p, int flags)
{
	(void)flags;
	return allocx_usable(p, "sallocx");
}

public void
dallocx(void *p, int flags)
{
	(void)flags;
	free(p);
}

public void
sdallocx(void *p, size_t size, int flags)
{
	size_t align = allocx_align(flags);

	if (is_replaced(free))
		free(p);
	else if (align != 1)
		alloc_free_aligned(p, align, size, API_MALLOC, "sdallocx");
	else if (!alloc_free_sized_fast(p, size))
		alloc_free_sized(p, size, API_MALLOC, "sdallocx");
}
