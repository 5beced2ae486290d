/*
 * watch.c - looks at a process that runs, again and again
 *
 * The process is never stopped: usage.c and top_sites.c read it while it runs.
 * A look takes more time the more pages the process has, so the interval grows
 * until looks take a tenth of the time.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/commands/watch.h"
#include "tools/inspect/symbols/program.h"

/* Between looks, so many times the time of a look passes. */
#define LOOK_PART 10

void
watch_open(struct watch *watch, const char *name)
{
	watch->target = target_open(name);
	if (!watch->target->live)
		fail_with(EXIT_ERROR, "%s: is a core file", name);
	watch->program = program_name(watch->target);
	if (watch->program == NULL)
		watch->program = "process";
	watch->layout = layout_find_ready(watch->target);
	watch->model.target = watch->target;
	watch->model.layout = watch->layout;
}

/* Another program in the process has other memory where the library was. */
static void
check_program(const struct watch *watch)
{
	if (layout_variable(watch->layout, watch->target, L_UMEM_STATE) !=
	    layout_value(watch->layout, L_UMEM_READY))
		fail_with(EXIT_ERROR, "%s: the process runs another program",
		    watch->target->name);
}

void
watch_look(struct watch *watch, struct usage *usage)
{
	const struct layout *l = watch->layout;
	double start = seconds_now();
	long n;

	check_program(watch);
	layout_peek(l, watch->target, layout_value(l, L_SAMPLING),
	    L_SAMPLING_MEAN, &watch->mean);
	top_sites_forget(&watch->sites, &watch->model);
	usage_read(&watch->model, usage);
	top_sites_read(&watch->sites, &watch->model);
	/* If the process has ended meanwhile, this is no look. */
	check_program(watch);
	/* Names, which are looked up once, do not count. */
	watch->took = seconds_now() - start;
	top_sites_count(&watch->sites, &watch->model);
	n = live_status(watch->target->pid, "Threads");
	if (n > 0)
		watch->nthreads = (unsigned long)n;
}

const char *
watch_again(struct watch *watch, struct usage *usage)
{
	jmp_buf failed;
	bool works = setjmp(failed) == 0;

	fail_target = &failed;
	fail_is_kept = true;
	if (works)
		watch_look(watch, usage);
	fail_is_kept = false;
	fail_target = NULL;
	return works ? NULL : fail_kept;
}

double
watch_pause(const struct watch *watch, double interval)
{
	double least = watch->took * LOOK_PART;

	return least > interval ? least : interval;
}

double
watch_parse_interval(const char *command, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end != '\0' || !(seconds >= WATCH_INTERVAL_MIN) ||
	    seconds > WATCH_INTERVAL_MAX)
		fail_with(EXIT_ERROR, "%s: -i takes %g to %d seconds, not %s",
		    command, WATCH_INTERVAL_MIN, WATCH_INTERVAL_MAX, text);
	return seconds;
}
