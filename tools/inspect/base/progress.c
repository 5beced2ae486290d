/* progress.c - a line on the terminal while a task takes long */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/base/progress.h"

/* When the line appears, and how often it changes, in seconds. */
#define PATIENCE 1.0
#define INTERVAL 0.1

/* Goes to the start of the line and erases it. */
#define ERASE "\r\033[K"

static double next; /* time of the next change; 0: not known */
static bool is_shown;

static bool
has_terminal(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDERR_FILENO) && kind != NULL &&
	       strcmp(kind, "dumb") != 0;
}

void
progress_show(const char *task, uint64_t done, uint64_t all)
{
	static bool is_wanted;
	double now = seconds_now();

	if (next == 0) {
		is_wanted = has_terminal();
		next = now + PATIENCE;
	}
	if (!is_wanted || now < next)
		return;
	next = now + INTERVAL;
	is_shown = true;
	fprintf(stderr, ERASE "umem: %s, %.0f %%", task,
	    all == 0 || done > all ? 100.0
				   : 100.0 * (double)done / (double)all);
	fflush(stderr);
}

void
progress_end(void)
{
	if (!is_shown)
		return;
	is_shown = false;
	fputs(ERASE, stderr);
	fflush(stderr);
}
