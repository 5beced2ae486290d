/*
 * cmd_sample.c - umem sample and samples: set the sampling interval, and report
 *
 * "sample" changes the process; see change.c.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/change.h"
#include "tools/inspect/dump.h"
#include "tools/inspect/flame.h"
#include "tools/inspect/pprof.h"
#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/symbols.h"
#include "tools/inspect/wrappers.h"
#include "umem/umem.h"

static const char *
age_text(uint64_t now, uint64_t time)
{
	return site_age_text(now > time ? now - time : 1);
}

static void
print_site(struct model *model, const struct sample_stack *site, uint64_t now,
    bool stacks)
{
	struct audit audit = audit_of_sample(site->newest);
	const char *callers, *name = site_stack_text(model, audit.depth,
				 audit.stack, SITE_CALLERS, &callers);
	bool estimated = sample_stack_is_estimated(site);
	int used = printf("%7zu %10s %9s %9s %9s ", site->n,
	    count_text(site->nblocks, estimated),
	    bytes_text(site->bytes, estimated),
	    age_text(now, site->newest->time),
	    age_text(now, site->oldest->time));

	print_call_site((size_t)used, name, callers);
	if (stacks)
		audit_print_stack(model, &audit, 9);
}

static void
print_off(const struct target *target)
{
	if (target->live)
		printf("sampling is off; \"umem sample %d default\" turns it "
		       "on\n",
		    target->pid);
	else
		puts("sampling is off");
}

static void
print_sites(struct model *model, const struct sample_stack *sites, size_t n,
    bool stacks)
{
	uint64_t mean = model->sampling_mean;
	uint64_t now = audit_now(model);
	struct sample_stack all = sample_stacks_sum(sites, n);

	if (mean == 0)
		print_off(model->target);
	else
		printf("one sample in about %lu bytes\n", mean);
	if (model->nhalved != 0)
		printf("the interval was doubled %lu times, when there were "
		       "%lu samples\n",
		    model->nhalved,
		    layout_value(model->layout, L_SAMPLES_MOST));
	if (n == 0 && mean == 0)
		return;
	printf("%7s %10s %9s %9s %9s %s\n", "SAMPLES", "ABOUT", "BYTES",
	    "NEWEST", "OLDEST", "CALL SITE");
	for (size_t i = 0; i < n; i++)
		print_site(model, &sites[i], now, stacks);
	puts("----------------------------------------------------------------"
	     "--------");
	printf("%7zu %10s %9s in all; %lu samples so far, %lu not kept\n",
	    all.n, count_text(all.nblocks, sample_stack_is_estimated(&all)),
	    bytes_text(all.bytes, sample_stack_is_estimated(&all)),
	    model->ntaken, model->nlost);
	symbols_print_advice(model->target);
}

static void
json_sites(struct model *model, const struct sample_stack *sites, size_t n)
{
	uint64_t now = audit_now(model);

	json_open(NULL, '{');
	json_number("mean", model->sampling_mean);
	json_number("taken", model->ntaken);
	json_number("not_kept", model->nlost);
	json_number("doubled", model->nhalved);
	json_open("sites", '[');
	for (size_t i = 0; i < n; i++) {
		struct audit audit = audit_of_sample(sites[i].newest);

		json_open(NULL, '{');
		json_number("samples", sites[i].n);
		json_number("about_buffers", (uint64_t)sites[i].nblocks);
		json_number("about_bytes", (uint64_t)sites[i].bytes);
		json_number("newest_age_ns", now - sites[i].newest->time);
		json_number("oldest_age_ns", now - sites[i].oldest->time);
		json_text("caller", audit_caller(model, &audit));
		json_open("newest", '{');
		/* A file of the library has no addresses of blocks. */
		if (model->layout != NULL)
			audit_json(model, &audit);
		else
			audit_json_stack(model, &audit);
		json_close();
		json_close();
	}
	json_close();
	json_close();
}

/* Prints the functions of a return address, outermost first. */
static void
put_frames(struct model *model, uint64_t pc)
{
	size_t n;
	const struct symbol_frame *frames =
	    symbol_frames(model->target, pc, &n);

	while (n-- > 0) {
		const char *name = frames[n].name;
		const char *end =
		    frames[n].is_inlined ? NULL : strrchr(name, '+');

		for (; *name != '\0' && name != end; name++)
			putchar(*name == ';' || *name == ' ' ? '_' : *name);
		if (n != 0)
			putchar(';');
	}
}

/* Prints the input of flame graph scripts: outermost;...;innermost bytes */
static void
print_folded(struct model *model, const struct sample_stack *sites, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct sample *s = sites[i].newest;

		if (s->depth == 0)
			putchar('?');
		for (unsigned j = s->depth; j-- > 0;) {
			put_frames(model, s->stack[j]);
			if (j != 0)
				putchar(';');
		}
		printf(" %.0f\n", sites[i].bytes);
	}
}

/* Reads the samples of a process, a core or a file of the library. */
static struct dump
take_samples(const char *name)
{
	struct dump dump;

	if (!dump_open(name, &dump)) {
		dump.model = snapshot_open(name, 0);
		dump.stacks = sample_stacks_find(dump.model, &dump.nstacks);
		wrappers_find_by_samples(dump.model);
	}
	return dump;
}

static void
print_dump(const struct dump *dump, bool stacks)
{
	if (dump->process != NULL)
		printf("%s%s\n", plain_text(dump->process, SIZE_MAX),
		    dump->ndumps == 1 ? ""
				      : xprint(", the last of %zu in the file",
					    dump->ndumps));
	print_sites(dump->model, dump->stacks, dump->nstacks, stacks);
	if (dump->rest != NULL)
		printf(
		    "not in the file: %s\n", plain_text(dump->rest, SIZE_MAX));
}

int
command_samples(int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"folded", no_argument, NULL, 'f'},
	    {"html", no_argument, NULL, 'h'}, {"pprof", no_argument, NULL, 'p'},
	    {NULL, 0, NULL, 0}};
	bool stacks = false;
	struct dump dump;
	int letter, form = 0;

	while ((letter = next_long_option(argc, argv, "fv", longs)) != -1)
		if (letter == 'v')
			stacks = true;
		else
			form = letter;
	if ((form == 'h' || form == 'p') && isatty(STDOUT_FILENO))
		fail_with(EXIT_ERROR,
		    "samples: %s is not for a terminal; add >FILE",
		    form == 'h' ? "--html" : "--pprof");
	dump = take_samples(only_argument(argc, argv));
	if (form == 'f')
		print_folded(dump.model, dump.stacks, dump.nstacks);
	else if (form == 'h')
		flame_write(dump.model, dump.stacks, dump.nstacks);
	else if (form == 'p')
		pprof_write(dump.model, dump.stacks, dump.nstacks);
	else if (json_wanted)
		json_sites(dump.model, dump.stacks, dump.nstacks);
	else
		print_dump(&dump, stacks);
	free(dump.stacks);
	return EXIT_OK;
}

static uint64_t
parse_mean(const char *command, const char *text)
{
	uint64_t mean;

	if (strcmp(text, "off") == 0)
		return 0;
	if (strcmp(text, "default") == 0)
		return UMEM_SAMPLE_DEFAULT;
	if (!parse_size(text, &mean))
		fail_usage(command,
		    xprint("%s is no number of bytes, off or default", text));
	return mean;
}

int
command_sample(int argc, char **argv)
{
	struct target *target;
	struct layout *l;
	uint64_t mean;

	no_option(argc, argv);
	expect_arguments(argc, argv, 2, 2);
	if (json_wanted)
		fail_usage(argv[0], "--json prints nothing here");
	mean = parse_mean(argv[0], argv[optind + 1]);
	target = change_open(argv[optind], &l);
	change_sampling(target, l, mean);
	target_release(target);
	if (mean == 0)
		printf("%s: sampling is off\n", target->name);
	else
		printf(
		    "%s: one sample in about %lu bytes\n", target->name, mean);
	return EXIT_OK;
}
