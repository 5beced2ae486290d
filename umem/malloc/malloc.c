/*
 * malloc.c - the C library's allocation functions
 *
 * The functions here handle arguments and errno only; alloc.h does the rest.
 * mallinfo2() is made of the figures of stats.h.  malloc_info() and
 * malloc_stats() write it in the XML and in the lines of glibc, for programs
 * that read these.  The manual of glibc ("Replacing malloc") says which
 * functions must be replaced together.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "umem/malloc/alloc.h"
#include "umem/malloc/replaced.h"
#include "umem/malloc/stats.h"
#include "umem/debug/debug.h"
#include "umem/upkeep/update.h"
#include "vmem/os.h"

/*
 * The system headers declare some of these functions differently from the ABI,
 * or not at all.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

REPLACEABLE_HERE(malloc);
REPLACEABLE_HERE(realloc);
REPLACEABLE_HERE(free);
REPLACEABLE_HERE(aligned_alloc);
REPLACEABLE_HERE(malloc_usable_size);

static void *
fail_with_errno(int error)
{
	errno = error;
	return NULL;
}

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

public void *
calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return fail_with_errno(ENOMEM);
	return alloc_get_zeroed(bytes);
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
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return fail_with_errno(ENOMEM);
	return realloc(p, bytes);
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
		return fail_with_errno(EINVAL);
	if (!is_pow2(align))
		align = align == 0 ? 1 : (size_t)2 << highbit(align);
	return alloc_get_aligned(size, align);
}

public void *
aligned_alloc(size_t align, size_t size)
{
	if (!is_pow2(align))
		return fail_with_errno(EINVAL);
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
		return fail_with_errno(ENOMEM);
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

static struct mallinfo2
report_read(void)
{
	struct mallinfo2 info = {0};
	struct umem_stats stats;

	stats_read(&stats);
	info.ordblks = stats.nfree;
	info.hblks = stats.nlarge;
	info.hblkhd = stats.large_bytes + stats.sampled_bytes;
	/* The rest of the heap.  glibc's callers rely on the sum. */
	info.uordblks = stats.live_bytes - stats.large_bytes;
	info.fordblks =
	    stats.cached_bytes + stats.waiting_bytes + stats.dirty_bytes;
	info.arena = info.uordblks + info.fordblks;
	info.keepcost = stats.dirty_bytes;
	return info;
}

public struct mallinfo2
mallinfo2(void)
{
	return report_read();
}

/*
 * The fields are int, so values above 2 GiB are wrong, as in every mallinfo().
 */
public struct mallinfo
mallinfo(void)
{
	struct mallinfo2 info = report_read();

	return (struct mallinfo){.arena = (int)info.arena,
	    .ordblks = (int)info.ordblks,
	    .hblks = (int)info.hblks,
	    .hblkhd = (int)info.hblkhd,
	    .uordblks = (int)info.uordblks,
	    .fordblks = (int)info.fordblks,
	    .keepcost = (int)info.keepcost};
}

/*
 * Writes formatted text with cancellation disabled, because a write is a
 * cancellation point and malloc_stats() is not.
 */
__attribute__((format(printf, 2, 3))) static void
report_write(FILE *file, const char *format, ...)
{
	struct message text = {.n = 0};
	va_list args;
	int old;

	va_start(args, format);
	message_format(&text, format, &args);
	va_end(args);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	fwrite(text.text, 1, text.n, file);
	pthread_setcancelstate(old, &old);
}

public int
malloc_info(int options, FILE *file)
{
	struct mallinfo2 info;

	if (options != 0) {
		errno = EINVAL;
		return -1;
	}
	info = report_read();
	report_write(file,
	    "<malloc version=\"1\">\n"
	    "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
	    "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
	    "<system type=\"current\" size=\"%zu\"/>\n"
	    "</malloc>\n",
	    info.ordblks, info.fordblks, info.hblks, info.hblkhd, info.arena);
	return 0;
}

public void
malloc_stats(void)
{
	struct mallinfo2 info = report_read();

	report_write(stderr,
	    "Arena 0:\n"
	    "system bytes     = %zu\n"
	    "in use bytes     = %zu\n"
	    "Total (incl. mmap):\n"
	    "system bytes     = %zu\n"
	    "in use bytes     = %zu\n",
	    info.arena, info.uordblks, info.arena + info.hblkhd,
	    info.uordblks + info.hblkhd);
}

/*
 * Old programs and other libraries call these names instead of the public ones.
 */

public void *
__libc_malloc(size_t size)
{
	return alloc_get(size);
}

public void
__libc_free(void *p)
{
	alloc_free(p);
}

public void *
__libc_calloc(size_t n, size_t size)
{
	return calloc(n, size);
}

public void *
__libc_realloc(void *p, size_t size)
{
	return ownrealloc(p, size);
}

public void *
__libc_reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return fail_with_errno(ENOMEM);
	return ownrealloc(p, bytes);
}

public void *
__libc_memalign(size_t align, size_t size)
{
	return memalign(align, size);
}

public void *
__libc_valloc(size_t size)
{
	return valloc(size);
}

public void *
__libc_pvalloc(size_t size)
{
	return pvalloc(size);
}

public struct mallinfo
__libc_mallinfo(void)
{
	return mallinfo();
}

public int
__libc_mallopt(int param, int value)
{
	return mallopt(param, value);
}
