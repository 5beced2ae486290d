/*
 * stats_report.c - the figures of stats.h in the forms of the C library
 *
 * Only in libumem_malloc.so.  mallinfo2() gets a structure, malloc_info() and
 * malloc_stats() get a text.  A report must not change the figures by
 * allocating, and the list of caches is locked while it is walked.  Therefore
 * the lines of the caches are put together in memory that is mapped for the
 * report, and are written when the walk is over.
 */
#include <pthread.h>
#include <string.h>

#include "umem/malloc/stats.h"
#include "umem/malloc/stats_report.h"
#include "vmem/os.h"

/*
 * Capacity for the lines of the caches: about 1000 of them, of 130 bytes.
 * Further caches are left out.
 */
#define REPORT_TEXT_BYTES (128 * KIB)

/* A report under construction. */
struct report {
	size_t n; /* bytes of text so far, without the final 0 */
	char text[REPORT_TEXT_BYTES];
	bool xml;
};

/*
 * The two figures are read at different times.  Returns 0 where b has become
 * larger than a.
 */
static size_t
difference_or_zero(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

struct mallinfo2
stats_report_mallinfo(void)
{
	struct mallinfo2 info = {0};
	struct stats stats;

	stats_read(&stats);
	info.arena = difference_or_zero(stats.held, stats.large);
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

/* Copies a name that the program has chosen, without markup. */
static void
report_copy_name(char out[UMEM_CACHE_NAMELEN + 1], const char *name)
{
	size_t n;

	for (n = 0; n < UMEM_CACHE_NAMELEN && name[n] != '\0'; n++)
		out[n] = strchr("<>&\"", name[n]) != NULL || name[n] < ' '
			     ? '_'
			     : name[n];
	out[n] = '\0';
}

/* Appends the line of a cache; for stats_each_cache(). */
static void
report_add_cache(const struct stats_cache *cache, void *arg)
{
	struct report *report = arg;
	const char *format =
	    report->xml
		? "<cache name=\"%s\" size=\"%zu\" live=\"%zu\" cached=\"%zu\" "
		  "total=\"%zu\" slabs=\"%zu\" rounds=\"%u\" moved=\"%u\" "
		  "failed=\"%lu\"/>\n"
		: "%-25s %8zu %9zu %9zu %9zu %7zu %6u %9u %6lu\n";
	char name[UMEM_CACHE_NAMELEN + 1], line[256];
	int n;

	if (cache->nslabs == 0)
		return;
	report_copy_name(name, cache->name);
	n = snprintf(line, sizeof(line), format, name, cache->chunk,
	    cache->nlive, cache->ncached, cache->nchunks, cache->nslabs,
	    cache->rounds, cache->nmoved, (unsigned long)cache->nfailed);
	if (report->n + (size_t)n >= sizeof(report->text))
		return;
	memcpy(report->text + report->n, line, (size_t)n + 1);
	report->n += (size_t)n;
}

static struct report *
report_create(bool xml)
{
	struct report *report =
	    os_map(align_up(sizeof(*report), os_page_size()));

	if (report == NULL)
		return NULL;
	report->xml = xml;
	stats_each_cache(report_add_cache, report);
	return report;
}

static void
report_delete(struct report *report)
{
	os_unmap(report, align_up(sizeof(*report), os_page_size()));
}

static void
report_write_xml(
    FILE *file, const struct stats *stats, const struct report *report)
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
report_write_text(
    FILE *file, const struct stats *stats, const struct report *report)
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
 * Writes with cancellation disabled.  Otherwise a thread that is cancelled
 * while it writes would leave the report mapped, because a write is a
 * cancellation point and malloc_stats() is not.
 */
bool
stats_report_write(FILE *file, bool xml)
{
	struct report *report;
	struct stats stats;
	int old;

	stats_read(&stats);
	report = report_create(xml);
	if (report == NULL)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (xml)
		report_write_xml(file, &stats, report);
	else
		report_write_text(file, &stats, report);
	report_delete(report);
	pthread_setcancelstate(old, &old);
	return true;
}
