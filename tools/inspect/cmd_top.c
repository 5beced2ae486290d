/* cmd_top.c - umem top: a live view of the memory of a process */
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/print.h"
#include "tools/inspect/top.h"

/* The key that draws a screen again, as in other programs. */
#define CONTROL_L 12

/* Frees figures that are not the first ones, too. */
static void
usage_drop(struct top *top, struct usage *usage)
{
	if (usage->cpu != top->first.cpu)
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
	top->rss[top->nlooks++ % TOP_HISTORY] = now.rss;
}

/* Looks; returns false and sets top->ended if that is no longer possible. */
static bool
look_again(struct top *top)
{
	struct usage now;

	top->ended = watch_again(&top->watch, &now);
	if (top->ended == NULL)
		top_take(top, now);
	return top->ended == NULL;
}

/* From now on, growth counts from the present figures. */
static void
top_reset(struct top *top)
{
	if (top->first.cpu != top->before.cpu && top->first.cpu != top->now.cpu)
		usage_free(&top->first);
	top->first = top->now;
	top_sites_reset(&top->watch.sites);
}

static int
run_batch(struct top *top, uint64_t count)
{
	for (uint64_t i = 0; count == 0 || i < count; i++) {
		const struct screen_line *lines;
		size_t n;

		usleep((useconds_t)(top->interval * 1e6));
		if (!look_again(top)) {
			puts(top->ended);
			return EXIT_OK;
		}
		lines = top_lines(top, 0, TEXT_WIDTH, &n);
		if (i != 0)
			putchar('\n');
		for (size_t j = 0; j < n; j++)
			puts(lines[j].text);
		fflush(stdout);
	}
	return EXIT_OK;
}

static void
top_draw(struct top *top)
{
	const struct screen_line *lines;
	size_t rows, columns, n;

	screen_size(&rows, &columns);
	lines = top_lines(top, rows, columns, &n);
	screen_draw(lines, n);
}

/* Obeys a key; returns false if it ends the command. */
static bool
top_obey(struct top *top, int key)
{
	static const char sorts[] = "mucglx";
	const char *sort = key > 0 && key < 128 ? strchr(sorts, key) : NULL;

	if (sort != NULL)
		top->sort = (enum top_sort)(sort - sorts);
	else if (key == ' ' || key == 'p')
		top->is_paused = !top->is_paused;
	else if (key == 'v')
		top->by_cpu = !top->by_cpu;
	else if (key == 'r')
		top_reset(top);
	else if (key == '+' && top->interval * 2 <= WATCH_INTERVAL_MOST)
		top->interval *= 2;
	else if (key == '-' && top->interval / 2 >= WATCH_INTERVAL_LEAST)
		top->interval /= 2;
	else if (key == CONTROL_L)
		screen_redraw();
	else if (key == SCREEN_DOWN && top->skipped + 1 < top->now.ncaches)
		top->skipped++;
	else if (key == SCREEN_UP && top->skipped > 0)
		top->skipped--;
	return key != 'q';
}

static int
run_screen(struct top *top)
{
	double next = 0;

	top->shows_keys = true;
	screen_open();
	for (;;) {
		double now = seconds_now();
		bool looks = top->ended == NULL && !top->is_paused;
		int key;

		if (looks && now >= next) {
			look_again(top);
			next = now + watch_pause(&top->watch, top->interval);
		}
		top_draw(top);
		key = screen_key(
		    looks ? next - seconds_now() : WATCH_INTERVAL_MOST);
		if (!top_obey(top, key))
			break;
	}
	screen_close();
	if (top->ended != NULL)
		print_warning("%s", top->ended);
	return EXIT_OK;
}

static enum top_sort
parse_sort(const char *text)
{
	enum top_sort sort = top_sort_named(text);

	if (sort == TOP_SORTS)
		fail_with(EXIT_ERROR,
		    "top: -s takes memory, use, cached, growth, loads or "
		    "locks, not %s",
		    text);
	return sort;
}

static uint64_t
parse_count(const char *command, const char *text)
{
	uint64_t n = size_argument(text, "top: ", "number of screens");

	if (n == 0)
		fail_usage(command, "-n takes at least 1");
	return n;
}

int
command_top(int argc, char **argv)
{
	static struct top top = {.interval = 1};
	bool is_batch = false;
	uint64_t count = 0;
	struct usage now;
	const char *name;
	int letter;

	while ((letter = next_option(argc, argv, "bci:n:s:")) != -1)
		if (letter == 'b')
			is_batch = true;
		else if (letter == 'c')
			top.by_cpu = true;
		else if (letter == 'i')
			top.interval = watch_parse_interval(argv[0], optarg);
		else if (letter == 'n')
			count = parse_count(argv[0], optarg);
		else
			top.sort = parse_sort(optarg);
	name = only_argument(argc, argv);
	if (json_wanted)
		fail_usage(argv[0], "--json: see umem status and umem stat");
	if (count != 0 && !is_batch)
		fail_usage(argv[0], "-n needs -b");
	watch_open(&top.watch, name);
	setlocale(LC_CTYPE, "");
	top.is_utf8 = !is_batch && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	watch_look(&top.watch, &now);
	top_take(&top, now);
	return is_batch ? run_batch(&top, count) : run_screen(&top);
}
