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
#include <unistd.h>

#include "tools/inspect/target.h"

/* The pagemap of the process that was read last; -1: not open. */
static int pagemap = -1;
static int pagemap_pid;

static void
pagemap_close(void)
{
	if (pagemap >= 0)
		close(pagemap);
	pagemap = -1;
}

static bool
pagemap_read(
    const struct target *target, uint64_t page, uint64_t *words, size_t n)
{
	ssize_t bytes = (ssize_t)(n * sizeof(*words));
	char path[64];

	if (pagemap_pid != target->reader)
		pagemap_close();
	pagemap_pid = target->reader;
	if (pagemap < 0) {
		snprintf(
		    path, sizeof(path), "/proc/%d/pagemap", target->reader);
		pagemap = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (pagemap >= 0 && pread(pagemap, words, (size_t)bytes,
				(off_t)(page * sizeof(*words))) == bytes)
		return true;
	/* The file belongs to the program before an exec(). */
	pagemap_close();
	return false;
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
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), words[512], first, n;
	size_t i = 1;

	*is_touched = true;
	if (m == NULL || target->reads_made)
		return bytes;
	if (m->end - at < bytes)
		bytes = m->end - at;
	if (!absent_is_zero(m))
		return bytes;
	first = at / page;
	n = (at + bytes - 1) / page - first + 1;
	if (n > array_size(words))
		n = array_size(words);
	if (!pagemap_read(target, first, words, n))
		return bytes;
	*is_touched = pagemap_is_there(words[0]);
	while (i < n && pagemap_is_there(words[i]) == *is_touched)
		i++;
	return (first + i) * page - at < bytes ? (first + i) * page - at
					       : bytes;
}
