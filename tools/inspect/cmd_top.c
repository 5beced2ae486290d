/*
 * cmd_top.c - umem top: a live view of the memory of a process
 *
 * The process is never stopped: usage.c and top_sites.c read it while it runs.
 * A look takes more time the more pages the process has, so the interval grows
 * until looks take a tenth of the time.
 */
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/print.h"
#include "tools/inspect/top.h"

/* The limits of the interval, in seconds. */
#define INTERVAL_LEAST 0.1
#define INTERVAL_MOST  3600

/* Between looks, so many times the time of a look passes. */
#define LOOK_PART 10

#define BATCH_WIDTH 100

/* The key that draws a screen again, as in other programs. */
#define CONTROL_L 12

/* Reads the name of the program and the number of its threads. */
static void
read_process(struct top *top)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", top->target->pid);
	file = fopen(path, "re");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "Name:\t", 6) == 0 && top->program == NULL)
			top->program = plain_text(line + 6, 63);
		else if (strncmp(line, "Threads:\t", 9) == 0)
			top->nthreads = strtoul(line + 9, NULL, 10);
	}
	fclose(file);
}

/* Frees figures that are not the first ones, too. */
static void
usage_drop(struct top *top, struct usage *usage)
{
	if (usage->cpu != top->first.cpu)
		usage_free(usage);
}

/* Looks at the process, or ends by fail_with(). */
static void
top_look(struct top *top)
{
	struct usage now;

	/* Another program in the process has other memory there. */
	if (layout_variable(top->layout, top->target, L_UMEM_STATE) !=
	    layout_value(top->layout, L_UMEM_READY))
		fail_with(EXIT_ERROR, "%s: the process runs another program",
		    top->target->name);
	top->model.target = top->target;
	top->model.layout = top->layout;
	layout_peek(top->layout, top->target,
	    layout_value(top->layout, L_SAMPLING), L_SAMPLING_MEAN, &top->mean);
	top_sites_forget(&top->sites, &top->model);
	top_sites_read(&top->sites, &top->model);
	usage_read(&top->model, &now);
	top_sites_count(&top->sites, &top->model);
	read_process(top);
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
	jmp_buf failed;
	bool works = setjmp(failed) == 0;

	fail_target = &failed;
	fail_is_kept = true;
	if (works)
		top_look(top);
	else
		top->ended = fail_kept;
	fail_is_kept = false;
	fail_target = NULL;
	return works;
}

/* From now on, growth counts from the present figures. */
static void
top_reset(struct top *top)
{
	if (top->first.cpu != top->before.cpu && top->first.cpu != top->now.cpu)
		usage_free(&top->first);
	top->first = top->now;
	top_sites_reset(&top->sites);
}

/* Returns the time until the next look, in seconds from the last one on. */
static double
pause_of(const struct top *top, double took)
{
	return took * LOOK_PART > top->interval ? took * LOOK_PART
						: top->interval;
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
		lines = top_lines(top, 0, BATCH_WIDTH, &n);
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
	else if (key == '+' && top->interval * 2 <= INTERVAL_MOST)
		top->interval *= 2;
	else if (key == '-' && top->interval / 2 >= INTERVAL_LEAST)
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
			next = now + pause_of(top, seconds_now() - now);
		}
		top_draw(top);
		key = screen_key(looks ? next - seconds_now() : INTERVAL_MOST);
		if (!top_obey(top, key))
			break;
	}
	screen_close();
	if (top->ended != NULL)
		print_warning("%s", top->ended);
	return EXIT_OK;
}

static double
parse_interval(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end != '\0' || !(seconds >= INTERVAL_LEAST) ||
	    seconds > INTERVAL_MOST)
		fail_with(EXIT_ERROR, "top: -i takes %g to %d seconds, not %s",
		    INTERVAL_LEAST, INTERVAL_MOST, text);
	return seconds;
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

int
command_top(int argc, char **argv)
{
	static struct top top = {.interval = 1};
	bool is_batch = false;
	uint64_t count = 0;
	const char *name;
	int letter;

	while ((letter = next_option(argc, argv, "bci:n:s:")) != -1)
		if (letter == 'b')
			is_batch = true;
		else if (letter == 'c')
			top.by_cpu = true;
		else if (letter == 'i')
			top.interval = parse_interval(optarg);
		else if (letter == 'n')
			count =
			    size_argument(optarg, "top: ", "number of screens");
		else
			top.sort = parse_sort(optarg);
	name = only_argument(argc, argv);
	if (json_wanted || (count != 0 && !is_batch))
		fail_usage(argv[0]);
	top.target = target_open(name);
	if (!top.target->live)
		fail_with(EXIT_ERROR, "%s: is a core file", name);
	top.layout = layout_find(top.target);
	setlocale(LC_CTYPE, "");
	top.is_utf8 = !is_batch && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	top_look(&top);
	return is_batch ? run_batch(&top, count) : run_screen(&top);
}
