/*
 * leaks_report.c - umem leaks: a row for each call site, the largest first
 *
 * The first table has the direct leaks: the call sites to look at.  The second
 * has the indirect leaks (leaks_direct.c), whose bytes the first table also
 * shows, in the rows of the blocks that point to them.  The rows are those of
 * sites.c.
 */
#include <getopt.h>
#include <sys/resource.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/leaks.h"
#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/suppress.h"

static struct sites direct, indirect;

static double excused_bytes, excused_blocks;

/* Excuses blocks with a suppressed stack, and the blocks they point to. */
static void
excuse(struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	struct audit audit;

	/* Other blocks, which have no stack, belong to the sites of samples. */
	if (large != NULL && large->sample != NULL)
		return;
	if ((slab != NULL ? audit_of_chunk(model, slab, i, &audit)
			  : audit_of_large(model, large, &audit)) &&
	    suppress_matches(model, audit.depth, audit.stack))
		leaks_excuse(model, slab, large, i);
}

static void
add_up(struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	excused_blocks++;
	excused_bytes += (double)site_bytes_of(model, slab, large, i);
}

static void
take_away(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	excused_blocks--;
	excused_bytes -= (double)site_bytes_of(model, slab, large, i);
}

static void
excuse_all(struct model *model)
{
	leaks_each(model, add_up);
	leaks_each(model, excuse);
	leaks_each(model, take_away);
}

static void
count_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	uint64_t held;
	bool is_indirect = leaks_is_indirect(model, slab, large, i, &held);

	sites_add_buffer(
	    is_indirect ? &indirect : &direct, slab, large, i, held);
}

static void
print_total(bool estimated)
{
	printf(
	    "%s", sites_sum_text(direct.bytes + indirect.bytes,
		      direct.blocks + indirect.blocks, estimated, " leaked"));
	if (indirect.nrows != 0)
		printf(", %s to which only leaked blocks point",
		    sites_sum_text(
			indirect.bytes, indirect.blocks, estimated, " of it"));
	puts("\n");
}

/* A process that grows without a leak needs other commands. */
static void
print_no_leaks(struct model *model, const struct leaks_options *options)
{
	int pid = model->target->pid;

	if (options->caller != NULL) {
		printf("no leaks from %s found\n", options->caller);
		return;
	}
	puts("no leaks found");
	if (!model->target->live || model->target->borrowed)
		return;
	puts("\nIf the process grows, it can still reach these blocks:");
	if (model->sampling_mean == 0 && !audit_is_on(model))
		printf("umem ctl %d sample=512k  records callers from now on\n",
		    pid);
	printf("umem users %d            by which callers it holds memory\n"
	       "umem diff -u -t 60 %d %d  which of them grow in a minute\n"
	       "umem status %d           how much of its memory is free\n",
	    pid, pid, pid, pid);
}

static void
print_tables(struct model *model, const struct leaks_options *options)
{
	double all = direct.bytes + indirect.bytes;
	bool estimated =
	    sites_are_estimated(&direct) || sites_are_estimated(&indirect);

	if (direct.nrows + indirect.nrows == 0) {
		print_no_leaks(model, options);
		return;
	}
	print_total(estimated);
	if (direct.nrows != 0)
		sites_print(&direct, all, options->every);
	if (indirect.nrows != 0) {
		puts("\nINDIRECT, by the call sites that allocated it; only "
		     "leaked blocks point to it:");
		sites_print(&indirect, all, options->every);
	}
	if (options->details) {
		sites_print_details(&direct, "", options->every);
		sites_print_details(&indirect, ", indirect", options->every);
	}
	sites_print_notes(model, estimated,
	    sites_have_unknown(&direct) || sites_have_unknown(&indirect));
}

static double
suppressed_blocks(void)
{
	return excused_blocks + direct.suppressed_blocks +
	       indirect.suppressed_blocks;
}

static double
suppressed_bytes(void)
{
	return excused_bytes + direct.suppressed_bytes +
	       indirect.suppressed_bytes;
}

static void
print_suppressed(void)
{
	if (suppress_is_on())
		suppress_print(suppressed_bytes(), suppressed_blocks(),
		    direct.suppressed_blocks + indirect.suppressed_blocks > 0);
}

static void
json_rows(struct sites *sites, const char *kind)
{
	for (size_t i = 0; i < sites->nrows; i++) {
		json_open(NULL, '{');
		json_text("kind", kind);
		site_json(sites, &sites->rows[i]);
		json_number(
		    "indirect_bytes", (uint64_t)(sites->rows[i].held + 0.5));
		json_close();
	}
}

static void
print_json(void)
{
	json_open(NULL, '{');
	json_open("leaks", '[');
	json_rows(&direct, "direct");
	json_rows(&indirect, "indirect");
	json_close();
	if (suppress_is_on()) {
		json_number(
		    "suppressed_blocks", (uint64_t)(suppressed_blocks() + 0.5));
		json_number(
		    "suppressed_bytes", (uint64_t)(suppressed_bytes() + 0.5));
	}
	json_number(
	    "blocks", (uint64_t)(direct.blocks + indirect.blocks + 0.5));
	json_number("bytes", (uint64_t)(direct.bytes + indirect.bytes + 0.5));
	json_close();
}

static void
search_leaks(struct model *model, const char *caller)
{
	leaks_mark(model);
	if (suppress_is_on())
		excuse_all(model);
	leaks_divide(model);
	target_end_copy(model->target);
	direct = (struct sites){.model = model,
	    .are_leaks = true,
	    .caller = caller,
	    .now = audit_now(model)};
	indirect = direct;
	leaks_each(model, count_leak);
	sites_finish(&indirect);
	direct.all_held = indirect.all_bytes;
	sites_finish(&direct);
}

static double
seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Prints what the search has cost, and how long the process was stopped. */
static void
print_search(const struct target *target, double elapsed)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("memory of the search: %ld kB\n", usage.ru_maxrss);
	printf("time of the search: %.1f s, on CPUs %.1f s\n", elapsed,
	    seconds(usage.ru_utime) + seconds(usage.ru_stime));
	if (target->was_copied)
		puts("searched: a copy of the process");
	if (target->live && !target->borrowed)
		printf(
		    "process was stopped for: %.1f ms\n", 1000 * target->pause);
	putchar('\n');
}

struct look
leaks_look(struct model *model)
{
	search_leaks(model, NULL);
	return look_of_sites(&direct);
}

int
leaks_report(struct model *model, const struct leaks_options *options)
{
	double start = seconds_now();
	struct look look;

	search_leaks(model, options->caller);
	look = look_of_sites(&direct);
	if (options->save != NULL)
		look_save(&look, options->save);
	if (options->since != NULL)
		return look_print_growth(options->since, &look, options->every);
	if (json_wanted) {
		print_json();
	} else {
		if (options->figures)
			print_search(model->target, seconds_now() - start);
		print_tables(model, options);
		print_suppressed();
	}
	return direct.nrows + indirect.nrows == 0 ? EXIT_OK : EXIT_FOUND;
}

int
command_leaks(int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"save", required_argument, NULL, OPTION_SAVE},
	    {"since", required_argument, NULL, OPTION_SINCE},
	    {"suppressions", required_argument, NULL, OPTION_SUPPRESSIONS},
	    {NULL, 0, NULL, 0}};
	struct leaks_options options = {0};
	struct look since;
	struct model *model;
	int letter;

	while ((letter = next_long_option(argc, argv, "c:dev", longs)) != -1)
		switch (letter) {
		case 'c':
			options.caller = optarg;
			break;
		case 'd':
			options.details = true;
			break;
		case 'e':
			options.every = true;
			break;
		case 'v':
			options.figures = true;
			break;
		case OPTION_SAVE:
			options.save = optarg;
			break;
		case OPTION_SINCE:
			since = look_open(optarg);
			options.since = &since;
			break;
		case OPTION_SUPPRESSIONS:
			suppress_read(optarg, EXIT_ERROR);
			break;
		}
	model = snapshot_open(only_argument(argc, argv), MODEL_POINTERS);
	return leaks_report(model, &options);
}
