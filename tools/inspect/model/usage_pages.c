/*
 * usage_pages.c - the pages of a range that are in memory
 *
 * /proc/PID/pagemap has a word for each page.  The kernel holds the lock of the
 * mappings for 2 MiB of addresses at a time, so the process keeps running.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tools/inspect/model/usage.h"

#define PAGE_PRESENT ((uint64_t)1 << 63)

void
usage_pages_open(struct usage_pages *pages, struct target *target)
{
	char path[64];

	pages->target = target;
	if (target->live)
		target_scan_anew(target);
	pages->fd = -1;
	pages->page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!target->live)
		return;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", target->reader);
	pages->fd = open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t
usage_pages_in(const struct usage_pages *pages, uint64_t at, uint64_t bytes)
{
	static uint64_t words[8192];
	uint64_t page = at / pages->page, n, present = 0;
	uint64_t end = (at + bytes + pages->page - 1) / pages->page;

	target_scan(pages->target, bytes);
	for (; page < end; page += n) {
		n = end - page < array_size(words) ? end - page
						   : array_size(words);
		if (pread(pages->fd, words, n * 8, (off_t)(page * 8)) !=
		    (ssize_t)(n * 8))
			break;
		for (uint64_t i = 0; i < n; i++)
			present += (words[i] & PAGE_PRESENT) != 0;
	}
	return present * pages->page;
}

void
usage_pages_close(struct usage_pages *pages)
{
	if (pages->fd >= 0)
		close(pages->fd);
	pages->fd = -1;
}
