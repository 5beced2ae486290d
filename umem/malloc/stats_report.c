/*
 * stats_report.c - the figures of stats.h in the forms of the C library
 *
 * Only in libumem_malloc.so.  mallinfo2() gets a structure, malloc_info() and
 * malloc_stats() write a text of stats_text.c to a stream.
 */
#include <pthread.h>

#include "umem/malloc/stats.h"
#include "umem/malloc/stats_report.h"
#include "umem/malloc/stats_text.h"

struct mallinfo2
stats_report_mallinfo(void)
{
	struct mallinfo2 info = {0};
	struct stats stats;

	stats_read(&stats);
	info.ordblks = stats.nfree;
	info.hblks = stats.nlarge;
	info.hblkhd = stats.large + stats.samples;
	/* The rest of the heap.  glibc's callers rely on the sum. */
	info.uordblks = stats.live - stats.large;
	info.fordblks =
	    stats_cached(&stats) + stats.waiting + stats.dirty + stats.warm;
	info.arena = info.uordblks + info.fordblks;
	info.keepcost = stats.dirty;
	return info;
}

/*
 * Writes with cancellation disabled.  Otherwise a thread that is cancelled
 * while it writes would leave the report mapped, because a write is a
 * cancellation point and malloc_stats() is not.
 */
bool
stats_report_write(FILE *file, bool xml)
{
	struct text *text = stats_text_create(xml ? STATS_XML : STATS_TABLE);
	int old;

	if (text == NULL)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	fwrite(text->bytes, 1, text->n, file);
	text_delete(text);
	pthread_setcancelstate(old, &old);
	return true;
}
