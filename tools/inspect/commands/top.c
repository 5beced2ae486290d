/* top.c - umem top: a live view of the memory of a process */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/top.h"

/* Control sequences of terminals, as in ECMA-48. */
#define CLEAR_ALL  "\033[2J"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
#define GO_HOME    "\033[H"

/* Frees figures that are not the first ones, too. */
static void
usage_drop(struct top *top, struct usage *usage)
{
	if (usage->caches != top->first.caches)
		usage_free(usage);
}

/* Takes the figures of a look. */
static void
top_take(struct top *top, struct usage now)
{
	usage_drop(top, &top->before);
	top->has_before = top->nlooks > 0;
	top->before = top->now;
	top->now = now;
	if (top->nlooks == 0)
		top->first = now;
	top->nlooks++;
}

/* Draws the screen of a terminal, or prints one for a file or pipe. */
static void
top_draw(const struct top *top, bool is_screen)
{
	size_t rows = 0, columns = TEXT_WIDTH, n;
	struct winsize size = {0};
	char **lines;

	if (is_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
	    size.ws_row > 0) {
		rows = size.ws_row;
		columns = size.ws_col;
	}
	lines = top_lines(top, rows, columns, &n);
	if (is_screen)
		fputs(GO_HOME, stdout);
	for (size_t i = 0; i < n && (rows == 0 || i + 1 < rows); i++)
		printf("%s%s\n", lines[i], is_screen ? CLEAR_LINE : "");
	if (is_screen)
		fputs(CLEAR_REST, stdout);
	fflush(stdout);
}

static size_t
parse_order(const char *text)
{
	size_t order = top_order_named(text);

	if (order == SIZE_MAX)
		fail_with(EXIT_ERROR,
		    "top: -s takes memory, use, cached, growth, loads or "
		    "locks, not %s",
		    text);
	return order;
}

int
command_top(int argc, char **argv)
{
	static struct top top = {.interval = 1};
	bool is_screen = isatty(STDOUT_FILENO);
	uint64_t count = UINT64_MAX;
	struct usage now;
	const char *name;
	int letter;

	while ((letter = next_option(argc, argv, "i:n:s:")) != -1)
		if (letter == 'i')
			top.interval = watch_parse_interval(argv[0], optarg);
		else if (letter == 'n')
			count =
			    size_argument(optarg, "top: ", "number of screens");
		else
			top.order = parse_order(optarg);
	name = only_argument(argc, argv);
	if (count == 0)
		fail_usage(argv[0], "-n takes at least 1");
	if (json_wanted)
		fail_usage(argv[0], "--json: see umem status and umem stat");
	watch_open(&top.watch, name);
	watch_look(&top.watch, &now);
	top_take(&top, now);
	if (is_screen)
		fputs(CLEAR_ALL, stdout);
	for (uint64_t i = 0; i < count; i++) {
		const char *ended;

		usleep(
		    (useconds_t)(1e6 * watch_pause(&top.watch, top.interval)));
		ended = watch_again(&top.watch, &now);
		if (ended != NULL) {
			puts(ended);
			break;
		}
		top_take(&top, now);
		if (i != 0 && !is_screen)
			putchar('\n');
		top_draw(&top, is_screen);
	}
	return EXIT_OK;
}
