/*
 * cmd_plot.c - umem plot: record the memory of a process, and make a page of it
 *
 * The process is not stopped while it is recorded (watch.c).  At the end, the
 * command searches for leaks, as umem leaks does, in a child process: neither a
 * failure nor the end of the search by a signal ends the recording.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/inspect/html.h"
#include "tools/inspect/plot.h"
#include "tools/inspect/print.h"
#include "tools/inspect/watch.h"

/* A short recording has so many looks, if -i does not say otherwise. */
#define LOOKS_LEAST 50

struct plot_options {
	double interval;  /* seconds; 0: not given */
	double duration;  /* seconds; INFINITY: not given */
	const char *save; /* a file for the record; or NULL */
	bool no_leaks;
};

/*
 * Returns the signals that end the recording, which are blocked from now on.  A
 * signal that the caller ignores, as nohup does, stays without effect.
 */
static sigset_t
block_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < array_size(ends); i++) {
		struct sigaction now;

		if (sigaction(ends[i], NULL, &now) == 0 &&
		    now.sa_handler != SIG_IGN)
			sigaddset(&set, ends[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}

/* Waits; returns true if one of the signals has come. */
static bool
wait_until(double time, const sigset_t *signals)
{
	for (;;) {
		double rest = fmax(time - seconds_now(), 0);
		struct timespec wait = {.tv_sec = (time_t)rest,
		    .tv_nsec = (long)((rest - floor(rest)) * 1e9)};

		if (sigtimedwait(signals, NULL, &wait) >= 0)
			return true;
		if (errno != EINTR)
			return false;
	}
}

/*
 * Takes the samples of the last look.  Figures are rounded as in a record, so
 * that its page is the same.
 */
static void
take_samples(struct plot *plot, const struct watch *watch)
{
	plot->mean = (double)watch->mean;
	for (size_t i = 0; i < watch->sites.n; i++) {
		const struct top_site *site = watch->sites.site[i];

		if (site->bytes == 0 && site->first == 0)
			continue;
		ARRAY_GROW(plot->sites, plot->nsites, plot->sites_capacity);
		plot->sites[plot->nsites++] = (struct plot_site){site->name,
		    rint(site->bytes), rint(site->blocks),
		    rint(site->bytes) - rint(site->first)};
	}
	for (size_t i = 0; i < watch->sites.nstacks; i++) {
		const struct top_stack *stack = watch->sites.stack[i];

		if (stack->flame.bytes == 0)
			continue;
		ARRAY_GROW(plot->stacks, plot->nstacks, plot->stacks_capacity);
		plot->stacks[plot->nstacks] = stack->flame;
		plot->stacks[plot->nstacks].bytes = rint(stack->flame.bytes);
		plot->stacks[plot->nstacks++].blocks =
		    rint(stack->flame.blocks * 100) / 100;
	}
}

static void
take_leaks(
    struct plot *plot, const struct plot_options *options, const char *name)
{
	if (options->no_leaks)
		plot->no_leaks = "No search for leaks was wanted.";
	else if (plot->ended != NULL)
		plot->no_leaks = "There was no process to search for leaks at "
				 "the end of the recording.";
	else if (!look_take(name, /* of_leaks */ true, &plot->leaks))
		plot->no_leaks =
		    xprint("The search for leaks did not succeed; \"umem leaks "
			   "%s\" prints the reason.",
			name);
}

static void
say_start(const struct plot *plot, const struct plot_options *options)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "umem: recording %s (%s)", plot->program, plot->pid);
	if (isfinite(options->duration))
		fprintf(stderr, " for %s; Ctrl-C ends it before\n",
		    site_age_text((uint64_t)(options->duration * 1e9)));
	else
		fprintf(stderr, "; Ctrl-C ends the recording\n");
}

/* Takes looks until the process, the time or the user ends it. */
static void
record_looks(struct plot *plot, const struct plot_options *options,
    struct watch *watch, FILE *file)
{
	double start = seconds_now(), now = start;
	double end = start + options->duration;
	sigset_t signals = block_signals();
	bool is_last = false;
	struct usage usage;

	while (!is_last) {
		double next = now + watch_pause(watch, options->interval);

		is_last = wait_until(fmin(next, end), &signals) ||
			  seconds_now() >= end;
		now = seconds_now();
		plot->ended = watch_again(watch, &usage);
		if (plot->ended != NULL) {
			plot->ended = plain_text(plot->ended, SIZE_MAX);
			return;
		}
		plot_add(plot, now - start, &usage);
		usage_free(&usage);
		if (file != NULL)
			plot_write_look(plot, file, options->save);
	}
}

static void
plot_record(
    struct plot *plot, const struct plot_options *options, const char *name)
{
	static struct watch watch = {.sites.keeps_names = true};
	FILE *file = NULL;
	struct timespec now;
	struct usage usage;

	watch_open(&watch, name);
	clock_gettime(CLOCK_REALTIME, &now);
	watch_look(&watch, &usage);
	plot->program = watch.program;
	plot->pid = xprint("%d", watch.target->pid);
	plot->start =
	    (double)now.tv_sec + rint((double)now.tv_nsec / 1e6) / 1e3;
	plot_add(plot, 0, &usage);
	usage_free(&usage);
	if (options->save != NULL) {
		file = fopen(options->save, "we");
		if (file == NULL)
			fail_with(EXIT_ERROR, "%s: %s", options->save,
			    strerror(errno));
		plot_write_head(plot, file, options->save);
		plot_write_look(plot, file, options->save);
	}
	say_start(plot, options);
	record_looks(plot, options, &watch, file);
	take_samples(plot, &watch);
	take_leaks(plot, options, name);
	plot->is_whole = true;
	if (file != NULL) {
		plot_write_rest(plot, file, options->save);
		fclose(file);
	}
}

static bool
is_number(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static void
parse_options(struct plot_options *options, int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"no-leaks", no_argument, NULL, 'n'},
	    {"save", required_argument, NULL, OPTION_SAVE}, {NULL, 0, NULL, 0}};
	int letter;

	*options = (struct plot_options){.duration = INFINITY};
	while ((letter = next_long_option(argc, argv, "i:t:", longs)) != -1)
		if (letter == 'i')
			options->interval =
			    watch_parse_interval(argv[0], optarg);
		else if (letter == 't')
			options->duration = (double)size_argument(
			    optarg, "plot: ", "number of seconds");
		else if (letter == 'n')
			options->no_leaks = true;
		else
			options->save = optarg;
	if (options->interval == 0)
		options->interval =
		    fmax(fmin(options->duration / LOOKS_LEAST, 1),
			WATCH_INTERVAL_LEAST);
}

int
command_plot(int argc, char **argv)
{
	struct plot_options options;
	struct plot plot = {0};
	const char *name;
	bool is_record, has_page = !isatty(STDOUT_FILENO);

	parse_options(&options, argc, argv);
	name = only_argument(argc, argv);
	is_record = !is_number(name) || access(name, F_OK) == 0;
	if (json_wanted)
		fail_usage(argv[0], "the page has no form for --json");
	if (is_record && options.save != NULL)
		fail_usage(argv[0], "--save needs a process");
	if (!has_page && options.save == NULL)
		fail_with(EXIT_ERROR,
		    "plot: standard output is a terminal, and the page "
		    "belongs into a file: umem plot %s >memory.html",
		    name);
	if (is_record)
		plot_read(&plot, name);
	else
		plot_record(&plot, &options, name);
	if (has_page)
		plot_write_page(&plot);
	return EXIT_OK;
}
