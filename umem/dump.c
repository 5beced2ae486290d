/*
 * dump.c - texts about the library, for the program and for files
 *
 * The text of the figures comes from umem/stats/stats_text.c, that of the
 * samples from sample_text.c, and the list of options from option_report.c.
 */
#include <errno.h>
#include <string.h>

#include "umem/base/ready.h"
#include "umem/profile/sample.h"
#include "umem/stats/sample_text.h"
#include "umem/stats/stats_text.h"
#include "umem/options.h"
#include "umem/umem.h"
#include "vmem/os.h"

/* Registers a function for exit(); libc has it under this name only. */
extern int __cxa_atexit(void (*function)(void *), void *arg, void *dso);

static struct text *
options_text_create(void)
{
	struct text *text = text_create(OPTION_REPORT_BYTES);

	if (text != NULL)
		option_report_all(text);
	return text;
}

void
dump_help(void)
{
	struct text *text = options_text_create();

	if (text == NULL)
		return;
	message_write_standard(text->bytes, text->n);
	text_delete(text);
}

/*
 * Returns the samples and the figures as one text, or NULL.  The samples come
 * first, because pprof reads the first line.
 */
static struct text *
dump_text_create(void)
{
	struct text *stats = stats_text_create();
	struct text *samples = sample_text_create(), *text = NULL;

	if (stats != NULL && samples != NULL)
		text = text_create(stats->n + samples->n + 64);
	if (text != NULL) {
		text_append(text, samples);
		text_line(text, "process %u\n", os_process_id());
		text_append(text, stats);
	}
	text_delete(samples);
	text_delete(stats);
	return text;
}

/*
 * Appends the statistics and the samples to the file of UMEM_OPTIONS=stats, by
 * one write().
 */
static void
dump_at_exit(void *unused)
{
	struct text *text = dump_text_create();
	int fd = message_open(stats_path);

	(void)unused;
	if (fd < 0 || text == NULL)
		message_line(
		    "UMEM_OPTIONS: stats: cannot write %s", stats_path);
	else
		os_write(fd, text->bytes, text->n);
	if (fd >= 0)
		os_close(fd);
	text_delete(text);
}

void
dump_start(void)
{
	if (stats_path[0] != '\0')
		__cxa_atexit(dump_at_exit, NULL, NULL);
}

/* The text of enum umem_dump_kind; NULL with errno set. */
static struct text *
dump_create(int what)
{
	errno = ENOMEM;
	if (what == UMEM_DUMP_STATS)
		return dump_text_create();
	if (what == UMEM_DUMP_OPTIONS) {
		sample_refresh_option();
		return options_text_create();
	}
	return fail_null(EINVAL);
}

public int
umem_dump(int fd, int what)
{
	int saved = errno, error;
	struct text *text;

	umem_ready();
	text = dump_create(what);
	if (text == NULL)
		return -1;
	error = os_write(fd, text->bytes, text->n);
	text_delete(text);
	errno = error != 0 ? error : saved;
	return error != 0 ? -1 : 0;
}

public ssize_t
umem_metrics(char *buffer, size_t bytes)
{
	int saved = errno;
	struct text *text;
	size_t n;

	umem_ready();
	text = stats_text_create();
	if (text == NULL)
		return fail_int(ENOMEM);
	errno = saved;
	n = text->n;
	if (bytes != 0) {
		size_t ncopied = n < bytes ? n : bytes - 1;

		memcpy(buffer, text->bytes, ncopied);
		buffer[ncopied] = '\0';
	}
	text_delete(text);
	return (ssize_t)n;
}
