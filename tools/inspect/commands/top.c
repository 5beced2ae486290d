/* top.c - umem top: a live view of the memory of a process, or of all */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/processes.h"
#include "tools/inspect/commands/top.h"

/* Control sequences of terminals, as in ECMA-48. */
#define CLEAR_ALL  "\033[2J"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
#define GO_HOME    "\033[H"

/* Takes the figures of a look. */
static void
top_take(struct top *top, struct usage now)
{
	/* The first figures stay. */
	if (top->before.caches != top->first.caches)
		usage_free(&top->before);
	top->has_before = top->nlooks > 0;
	top->before = top->now;
	top->now = now;
	if (top->nlooks == 0)
		top->first = now;
	top->nlooks++;
}

/* Finds the size of the terminal. */
static void
screen_size(bool is_screen, size_t *rows, size_t *columns)
{
	struct winsize size = {0};

	*rows = 0;
	*columns = TEXT_WIDTH;
	if (is_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
	    size.ws_row > 0) {
		*rows = size.ws_row;
		*columns = size.ws_col;
	}
}

/* Draws the screen of a terminal, or prints one for a file or pipe. */
static void
top_draw(const struct top *top, bool is_screen)
{
	size_t rows, columns, n;
	char **lines;

	screen_size(is_screen, &rows, &columns);
	lines = top_lines(top, rows, columns, &n);
	if (is_screen)
		fputs(GO_HOME, stdout);
	for (size_t i = 0; i < n && (rows == 0 || i + 1 < rows); i++)
		printf("%s%s\n", lines[i], is_screen ? CLEAR_LINE : "");
	if (is_screen)
		fputs(CLEAR_REST, stdout);
	print_end(EXIT_OK);
}

/* Shows all processes.  Each look has a process, as in diff.c. */
static int
top_all(double interval, uint64_t count, bool is_screen)
{
	for (uint64_t i = 0; i < count; i++) {
		pid_t child;
		int status;

		if (i != 0)
			usleep((useconds_t)(1e6 * interval));
		child = fork();
		if (child < 0)
			fail_with(EXIT_ERROR, "top: no process for a look");
		if (child == 0) {
			struct processes all = {0};
			size_t rows, columns;

			screen_size(is_screen, &rows, &columns);
			processes_find(&all);
			if (is_screen)
				fputs(GO_HOME CLEAR_REST, stdout);
			else if (i != 0)
				putchar('\n');
			processes_print(&all, rows > 4 ? rows - 3 : SIZE_MAX);
			exit(print_end(EXIT_OK));
		}
		if (waitpid(child, &status, 0) < 0 || status != 0)
			return EXIT_ERROR;
	}
	return EXIT_OK;
}

int
command_top(int argc, char **argv)
{
	static struct top top;
	bool is_screen = isatty(STDOUT_FILENO);
	uint64_t count = UINT64_MAX;
	const char *interval = "1", *order = "memory", *name;
	const struct option_word words[] = {{"i", .text = &interval},
	    {"n", .size = &count, .noun = "number of screens"},
	    {"s", .text = &order}};
	struct usage now;

	name = *options_take(argc, argv, words, array_size(words), 0, 1);
	top.interval = watch_parse_interval(argv[0], interval);
	top.order = top_order_named(order);
	if (count == 0)
		fail_usage(argv[0], "-n takes at least 1");
	if (json_wanted)
		fail_usage(argv[0], "--json: see umem status, stat and ps");
	/* The end of the reader ends this command. */
	signal(SIGPIPE, SIG_DFL);
	if (name == NULL)
		return top_all(top.interval, count, is_screen);
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
