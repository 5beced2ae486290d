/*
 * target_lines.c - memory of the copy of the process, read when it is needed
 *
 * A search for leaks that keeps all pointers of a process needs up to a third
 * of its memory.  If the process was copied (target_copy.c), the search instead
 * reads each block when it comes to it.  umem grep and umem verify do so, too.
 * Because most blocks are near others
 * that it needs soon, this file reads whole lines of LINE_BYTES, and AHEAD of
 * them at once if they are read in order.  It keeps the lines in a
 * direct-mapped cache.
 */
#include <assert.h>
#include <stdlib.h>

#include "tools/inspect/target/target.h"

#define LINE_BYTES 4096
#define AHEAD      16
#define LINES_MIN  64
#define LINES_MAX  4096

/* The cache has this part of the memory of the process, within these limits. */
#define LINES_PART 64

static_assert(LINES_MIN % AHEAD == 0 && LINES_MAX % AHEAD == 0,
    "lines that are read at once are adjacent in the cache");

static struct {
	uint64_t *number; /* of the line in each place, or UINT64_MAX */
	char *line;
	uint64_t n;    /* places */
	uint64_t last; /* line that was read last */
} lines;

uint64_t
target_lines_bytes(uint64_t present)
{
	uint64_t n = present / LINES_PART / LINE_BYTES / AHEAD * AHEAD;

	n = n < LINES_MIN ? LINES_MIN : n > LINES_MAX ? LINES_MAX : n;
	return n * LINE_BYTES;
}

void
target_use_lines(struct target *target, uint64_t present)
{
	assert(lines.n == 0);
	lines.n = target_lines_bytes(present) / LINE_BYTES;
	lines.number = xalloc(lines.n * sizeof(*lines.number));
	lines.line = xalloc(lines.n * LINE_BYTES);
	for (uint64_t i = 0; i < lines.n; i++)
		lines.number[i] = UINT64_MAX;
	lines.last = UINT64_MAX;
	target->reads_lines = true;
}

const char *
target_line(struct target *target, uint64_t at, uint64_t *bytes)
{
	uint64_t number = at / LINE_BYTES, place = number % lines.n, n = 1;

	assert(target->reads_lines);
	*bytes = LINE_BYTES - at % LINE_BYTES;
	if (lines.number[place] != number) {
		target_check_copy(target);
		if (number == lines.last + 1)
			n = AHEAD - number % AHEAD;
		if (!live_read(target, number * LINE_BYTES, n * LINE_BYTES,
			lines.line + place * LINE_BYTES))
			return NULL;
		for (uint64_t i = 0; i < n; i++)
			lines.number[place + i] = number + i;
		lines.last = number + n - 1;
	}
	return lines.line + place * LINE_BYTES + at % LINE_BYTES;
}
