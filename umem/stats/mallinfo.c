/*
 * mallinfo.c - the figures in the forms of the C library
 *
 * mallinfo2() is made of the figures of stats.h.  malloc_info() and
 * malloc_stats() write it in the XML and in the lines of glibc, for programs
 * that read these.  Not in libumem.
 */
#include <pthread.h>
#include <stdio.h>

#include "umem/stats/stats.h"
#include "vmem/panic.h"

/* No header of the system declares all of these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* The layouts of glibc's struct mallinfo2 and struct mallinfo. */
struct report {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks,
	    uordblks, fordblks, keepcost;
};
struct report_int {
	int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks,
	    fordblks, keepcost;
};

static struct report
report_read(void)
{
	struct report info = {0};
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

public __typeof__(report_read) mallinfo2 __attribute__((alias("report_read")));

/*
 * The fields are int, so values above 2 GiB are wrong, as in every mallinfo().
 */
public struct report_int
mallinfo(void)
{
	struct report info = report_read();

	return (struct report_int){.arena = (int)info.arena,
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
	struct report info;

	if (options != 0)
		return fail_int(EINVAL);
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
	struct report info = report_read();

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

/* Old programs call this name. */
public __typeof__(mallinfo) __libc_mallinfo __attribute__((alias("mallinfo")));
