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
#include "tools/inspect/flame.h"
#include "tools/inspect/pprof.h"
#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/symbols.h"
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
	const char *callers,
	    *name = site_stack_text(model, audit.depth, audit.stack, &callers);
	int used = printf("%7zu %10.0f %9s %9s %9s ", site->n, site->nblocks,
	    size_text((uint64_t)site->bytes), age_text(now, site->newest->time),
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
	uint64_t mean = model_sampling_interval(model);
	uint64_t now = audit_now(model);
	struct sample_stack all = {0};

	for (size_t i = 0; i < n; i++) {
		all.n += sites[i].n;
		all.nblocks += sites[i].nblocks;
		all.bytes += sites[i].bytes;
	}
	if (mean == 0)
		print_off(model->target);
	else
		printf("one sample in about %lu bytes\n", mean);
	if (n == 0 && mean == 0)
		return;
	printf("%7s %10s %9s %9s %9s %s\n", "SAMPLES", "ABOUT", "BYTES",
	    "NEWEST", "OLDEST", "CALL SITE");
	for (size_t i = 0; i < n; i++)
		print_site(model, &sites[i], now, stacks);
	puts("----------------------------------------------------------------"
	     "--------");
	printf("%7zu %10.0f %9s in all; %lu samples so far, %lu not kept\n",
	    all.n, all.nblocks, size_text((uint64_t)all.bytes),
	    layout_variable(model->layout, model->target, L_NTAKEN),
	    layout_variable(model->layout, model->target, L_NLOST));
}

static void
json_sites(struct model *model, const struct sample_stack *sites, size_t n)
{
	uint64_t now = audit_now(model);

	json_open(NULL, '{');
	json_number("mean", model_sampling_interval(model));
	json_number(
	    "taken", layout_variable(model->layout, model->target, L_NTAKEN));
	json_number(
	    "not_kept", layout_variable(model->layout, model->target, L_NLOST));
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
		audit_json(model, &audit);
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

int
command_samples(int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"folded", no_argument, NULL, 'f'},
	    {"html", no_argument, NULL, 'h'}, {"pprof", no_argument, NULL, 'p'},
	    {NULL, 0, NULL, 0}};
	bool stacks = false;
	struct model *model;
	struct sample_stack *sites;
	int letter, form = 0;
	size_t n;

	while ((letter = next_long_option(argc, argv, "fv", longs)) != -1)
		if (letter == 'v')
			stacks = true;
		else
			form = letter;
	model = snapshot_open(only_argument(argc, argv), 0);
	sites = sample_stacks_find(model, &n);
	if (form == 'f')
		print_folded(model, sites, n);
	else if (form == 'h')
		flame_write(model, sites, n);
	else if (form == 'p')
		pprof_write(model, sites, n);
	else if (json_wanted)
		json_sites(model, sites, n);
	else
		print_sites(model, sites, n, stacks);
	free(sites);
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
