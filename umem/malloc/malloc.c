/*
 * malloc.c - the C library's allocation functions
 *
 * The functions here handle arguments and errno only; alloc.h does the rest.
 * The manual of glibc ("Replacing malloc") says which functions must be
 * replaced together.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"
#include "umem/cache/misuse.h"
#include "umem/malloc/stats.h"
#include "umem/upkeep/update.h"
#include "vmem/heap.h"
#include "vmem/os.h"

/*
 * The system headers declare some of these functions differently from the ABI,
 * or not at all.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void *
fail(int error)
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
		return fail(ENOMEM);
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

public void *
reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return fail(ENOMEM);
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
		return fail(EINVAL);
	if (!is_pow2(align))
		align = align == 0 ? 1 : (size_t)2 << highbit(align);
	return alloc_get_aligned(size, align);
}

public void *
aligned_alloc(size_t align, size_t size)
{
	if (!is_pow2(align))
		return fail(EINVAL);
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
		return fail(ENOMEM);
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
	alloc_free(p);
}

public void
free_sized(void *p, size_t size)
{
	if (!alloc_free_sized_fast(p, size))
		alloc_free_sized(p, size, KIND_MALLOC, "free_sized");
}

public void
free_aligned_sized(void *p, size_t align, size_t size)
{
	alloc_free_aligned(p, align, size, KIND_MALLOC, "free_aligned_sized");
}

/* Returns 1 if memory was released to the kernel. */
public int
malloc_trim(size_t pad)
{
	int saved = errno;
	size_t bytes;

	(void)pad;
	bytes = umem_mode(&(struct umem_mode){0}, sizeof(struct umem_mode)) == 0
		    ? update_trim()
		    : 0;
	errno = saved;
	return bytes != 0;
}

/*
 * Accepts every parameter, because no internals of glibc exist here to be
 * tuned.
 */
public int
mallopt(int param, int value)
{
	(void)param;
	(void)value;
	return 1;
}

/*
 * The two figures are read at different times.  Returns 0 where b has become
 * larger than a.
 */
static size_t
difference(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

public struct mallinfo2
mallinfo2(void)
{
	struct mallinfo2 info = {0};
	struct stats stats;

	stats_read(&stats);
	info.arena = difference(stats.held, stats.large);
	info.ordblks = stats.nchunks_free;
	info.hblks = stats.nlarge;
	info.hblkhd = stats.large;
	/*
	 * Chunks of caches with a source of their own are not in the arena, so
	 * that uordblks must be limited.
	 */
	info.uordblks =
	    stats.chunks_live < info.arena ? stats.chunks_live : info.arena;
	info.fordblks = info.arena - info.uordblks;
	info.keepcost = stats.dirty;
	return info;
}

/*
 * The fields are int, so values above 2 GiB are wrong, as in every mallinfo().
 */
public struct mallinfo
mallinfo(void)
{
	struct mallinfo2 info = mallinfo2();

	return (struct mallinfo){.arena = (int)info.arena,
	    .ordblks = (int)info.ordblks,
	    .hblks = (int)info.hblks,
	    .hblkhd = (int)info.hblkhd,
	    .uordblks = (int)info.uordblks,
	    .fordblks = (int)info.fordblks,
	    .keepcost = (int)info.keepcost};
}

/*
 * Text of a report.  The caller supplies the memory in which lines are put
 * together, because a report must not change the figures by allocating, and
 * because the list of caches is locked meanwhile.
 */
struct report {
	size_t n;
	char text[128 * KIB];
	bool xml;
};

static void
report_cache(const struct stats_cache *cache, void *arg)
{
	struct report *report = arg;
	const char *format =
	    report->xml
		? "<cache name=\"%s\" size=\"%zu\" live=\"%zu\" cached=\"%zu\" "
		  "total=\"%zu\" slabs=\"%zu\" rounds=\"%u\" moved=\"%u\" "
		  "failed=\"%lu\"/>\n"
		: "%-25s %8zu %9zu %9zu %9zu %7zu %6u %9u %6lu\n";
	char line[256];
	int n;

	if (cache->nslabs == 0)
		return;
	/* The program chooses the names: remove markup from them. */
	char name[UMEM_CACHE_NAMELEN + 1];
	for (n = 0; cache->name[n] != '\0'; n++)
		name[n] = strchr("<>&\"", cache->name[n]) != NULL ||
				  cache->name[n] < ' '
			      ? '_'
			      : cache->name[n];
	name[n] = '\0';
	n = snprintf(line, sizeof(line), format, name, cache->chunk,
	    cache->nlive, cache->ncached, cache->nchunks, cache->nslabs,
	    cache->rounds, cache->nmoved, (unsigned long)cache->nfailed);
	if (report->n + (size_t)n >= sizeof(report->text))
		return;
	memcpy(report->text + report->n, line, (size_t)n + 1);
	report->n += (size_t)n;
}

static struct report *
report_new(bool xml)
{
	struct report *report =
	    os_map(align_up(sizeof(*report), os_page_size()));

	if (report == NULL)
		return NULL;
	report->xml = xml;
	stats_each_cache(report_cache, report);
	return report;
}

static void
report_delete(struct report *report)
{
	os_unmap(report, align_up(sizeof(*report), os_page_size()));
}

static void
print_info(FILE *file, const struct stats *stats, const struct report *report)
{
	fprintf(file,
	    "<malloc version=\"umem-%s\">\n"
	    "<heap held=\"%zu\" committed=\"%zu\" dirty=\"%zu\" "
	    "slabs=\"%zu\" live=\"%zu\" cached=\"%zu\" meta=\"%zu\"/>\n"
	    "<large count=\"%zu\" size=\"%zu\"/>\n%s</malloc>\n",
	    UMEM_VERSION, stats->held, stats->committed, stats->dirty,
	    stats->slabs, stats->chunks_live, stats->chunks_cached, stats->meta,
	    stats->nlarge, stats->large, report->text);
}

/* The last two lines have the wording of glibc's. */
static void
print_stats(FILE *file, const struct stats *stats, const struct report *report)
{
	fprintf(file,
	    "umem %s: bytes\n"
	    "heap      %12zu, of which free and not given back %zu\n"
	    "in use    %12zu in chunks, %zu in %zu large blocks\n"
	    "cached    %12zu in free chunks\n"
	    "own use   %12zu\n"
	    "%-25s %8s %9s %9s %9s %7s %6s %9s %6s\n%s"
	    "max mmap regions = %10zu\n"
	    "max mmap bytes   = %10zu\n",
	    UMEM_VERSION, stats->held, stats->dirty, stats->chunks_live,
	    stats->large, stats->nlarge, stats->chunks_cached, stats->meta,
	    "cache", "size", "live", "cached", "total", "slabs", "rounds",
	    "moved", "failed", report->text, stats->nlarge_most,
	    stats->large_most);
}

/*
 * Writes the report, with cancellation disabled.  Otherwise a thread that is
 * cancelled while it writes would leave the report mapped, because a write is a
 * cancellation point and malloc_stats() is not.
 */
static bool
print_report(bool xml, FILE *file)
{
	struct report *report;
	struct stats stats;
	int old;

	stats_read(&stats);
	report = report_new(xml);
	if (report == NULL)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (xml)
		print_info(file, &stats, report);
	else
		print_stats(file, &stats, report);
	report_delete(report);
	pthread_setcancelstate(old, &old);
	return true;
}

public int
malloc_info(int options, FILE *file)
{
	if (options != 0) {
		errno = EINVAL;
		return -1;
	}
	if (print_report(/* xml */ true, file))
		return 0;
	errno = ENOMEM;
	return -1;
}

public void
malloc_stats(void)
{
	print_report(/* xml */ false, stderr);
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
	return realloc(p, size);
}

public void *
__libc_reallocarray(void *p, size_t n, size_t size)
{
	return reallocarray(p, n, size);
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
