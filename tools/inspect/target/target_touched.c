/*
 * target_touched.c - the pages that the target has touched
 *
 * A read of anonymous memory that the target has never touched makes the kernel
 * map a page of zeros there, or a huge one.  The resident set stays as it is,
 * but /proc/PID/pagemap and mincore() then show these pages as present.  So
 * this command reads only pages that are present or swapped out; the others are
 * zeros.  It asks for mappings without a file: of a file, a page that the
 * target does not have may still have contents.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/target/target.h"

/* The words of the pagemap that the kernel has in one page of its tables. */
#define WINDOW_WORDS 512

/* The windows that are kept, and for how long if the process runs. */
#define WINDOWS        8
#define WINDOW_SECONDS 0.01

/* The pagemap of a process or its copy, and of which; -1: not open. */
static int pagemap = -1, pagemap_of;

static void
pagemap_close(void)
{
	if (pagemap >= 0)
		close(pagemap);
	pagemap = -1;
}

/* Opens the pagemap of a process; false: it cannot be opened. */
static bool
pagemap_open(int of)
{
	if (pagemap_of != of)
		pagemap_close();
	pagemap_of = of;
	if (pagemap < 0)
		pagemap = open(proc_path(of, "pagemap"), O_RDONLY | O_CLOEXEC);
	return pagemap >= 0;
}

static bool
pagemap_read(int of, uint64_t page, uint64_t *words, size_t n)
{
	ssize_t bytes = (ssize_t)(n * sizeof(*words));

	if (pagemap_open(of) && pread(pagemap, words, (size_t)bytes,
				    (off_t)(page * sizeof(*words))) == bytes)
		return true;
	/* The file belongs to the program before an exec(). */
	pagemap_close();
	return false;
}

/*
 * Returns the word of a page in a window of the pagemap, or NULL if the kernel
 * hides it.  The memory of the target stays as it is, or the word is at most
 * WINDOW_SECONDS old.  The stacks of thousands of threads are next to each
 * other, and so are the variables of the library: one read serves some of them.
 */
static const uint64_t *
window_word(const struct target *target, int of, uint64_t page)
{
	static struct {
		int of; /* 0: not read */
		double read_at;
		uint64_t first;
		uint64_t words[WINDOW_WORDS];
	} windows[WINDOWS], *window;
	uint64_t first = page / WINDOW_WORDS * WINDOW_WORDS;
	double since = target_is_still(target) ? target->stopped_at
					       : seconds_now() - WINDOW_SECONDS;

	window = &windows[page / WINDOW_WORDS % WINDOWS];
	if (window->of != of || window->first != first ||
	    window->read_at < since) {
		window->read_at = seconds_now();
		window->first = first;
		window->of =
		    pagemap_read(of, first, window->words, WINDOW_WORDS) ? of
									 : 0;
	}
	return window->of == 0 ? NULL : &window->words[page - first];
}

/* Returns the process that is read: the target, or its copy. */
static int
reader_of(const struct target *target)
{
	return target->reads_made ? target->made->pid : target->reader;
}

/* A page that a running process has touched since the look counts as well. */
bool
live_pagemap(
    const struct target *target, uint64_t page, uint64_t *words, size_t n)
{
	int of = reader_of(target);
	bool still = target_is_still(target);
	const uint64_t *known = NULL;

	if (page % WINDOW_WORDS + n <= WINDOW_WORDS)
		known = window_word(target, of, page);
	for (size_t i = 0; known != NULL && !still && i < n; i++)
		if (!pagemap_is_there(known[i]))
			known = NULL;
	if (known == NULL)
		return pagemap_read(of, page, words, n);
	memcpy(words, known, n * sizeof(*words));
	return true;
}

/* PAGEMAP_SCAN of Linux 6.7, which older headers lack. */
struct scan {
	uint64_t size, flags, start, end, walk_end, regions, nregions;
	uint64_t pages_max, inverted, mask, any_mask, return_mask;
};
#define SCAN         _IOWR('f', 16, struct scan)
#define IS_ZERO_PAGE (1u << 5)

uint64_t
live_zero_pages(const struct target *target, uint64_t at, uint64_t bytes)
{
	struct {
		uint64_t start, end, categories;
	} regions[64] = {0};
	struct scan scan = {.size = sizeof(scan),
	    .start = at,
	    .end = at + bytes,
	    .regions = (uintptr_t)regions,
	    .nregions = array_size(regions),
	    .mask = IS_ZERO_PAGE,
	    .return_mask = IS_ZERO_PAGE};
	uint64_t zeros = 0;
	long n;

	if (!pagemap_open(reader_of(target)))
		return 0;
	/* The request is no int, which musl's ioctl() takes. */
	while (scan.start < scan.end &&
	       (n = syscall(SYS_ioctl, pagemap, SCAN, &scan)) >= 0) {
		while (n-- > 0)
			zeros += regions[n].end - regions[n].start;
		scan.start = scan.walk_end;
	}
	return zeros;
}

/* Is a page that this mapping does not have all zeros? */
static bool
absent_is_zero(const struct mapping *m)
{
	return !m->file && !m->shared && strncmp(m->name, "[v", 2) != 0;
}

uint64_t
live_touched_run(
    struct target *target, uint64_t at, uint64_t bytes, bool *is_touched)
{
	const struct mapping *m = target_mapping(target, at);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = at / page;
	uint64_t words[WINDOW_WORDS], n = WINDOW_WORDS - first % WINDOW_WORDS;
	size_t i = 1;

	*is_touched = true;
	if (m == NULL)
		return bytes;
	if (m->end - at < bytes)
		bytes = m->end - at;
	if (!absent_is_zero(m))
		return bytes;
	/* A longer run is several, so that a page is in few reads. */
	if (n > (at + bytes - 1) / page - first + 1)
		n = (at + bytes - 1) / page - first + 1;
	if (live_pagemap(target, first, words, n))
		*is_touched = pagemap_is_there(words[0]);
	else
		i = n;
	while (i < n && pagemap_is_there(words[i]) == *is_touched)
		i++;
	target_scan(target, i * page);
	return (first + i) * page - at < bytes ? (first + i) * page - at
					       : bytes;
}
