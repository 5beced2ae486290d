/*
 * report.c - umem leaks and umem users: a row for each call site, the largest
 * first
 *
 * The rows are those of sites.c: of all allocated blocks for users, of blocks
 * that no pointer reaches for leaks.  The first table of leaks has the direct
 * ones, the call sites to look at.  The second has the indirect leaks
 * (leaks_direct.c).  The first table shows their bytes, too, in the rows of the
 * blocks that point to them.
 *
 * With --allocated, --temporary and --peak, the rows of users are sums that the
 * library keeps for each stack of samples, of blocks that may be freed.
 */
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/report.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/report/flame.h"
#include "tools/inspect/report/pprof.h"
#include "tools/inspect/sites/leaks.h"
#include "tools/inspect/sites/suppress.h"
#include "tools/inspect/symbols/program.h"

/* Names for sampled and large blocks, which belong to no cache. */
#define SAMPLES "umem_sample"
#define LARGE   "umem_oversize"

static struct sites rows, indirect; /* indirect: of leaks only */

static uint64_t peak_age; /* of the samples, in ns */

static double excused_bytes, excused_blocks;
static double excused_each; /* what each leak adds to them: 1 or -1 */

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
count_excused(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	excused_blocks += excused_each;
	excused_bytes +=
	    excused_each * (double)site_bytes_of(model, slab, large, i);
}

static void
count_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	uint64_t held;
	bool is_indirect = leaks_is_indirect(model, slab, large, i, &held);

	sites_add_buffer(is_indirect ? &indirect : &rows, slab, large, i, held);
}

static void
find_leaks(struct model *model)
{
	leaks_mark(model);
	if (suppress_is_on()) {
		excused_each = 1;
		leaks_each(model, count_excused);
		leaks_each(model, excuse);
		excused_each = -1;
		leaks_each(model, count_excused);
	}
	leaks_divide(model);
	target_end_copy(model->target);
	indirect = rows;
	leaks_each(model, count_leak);
	sites_finish(&indirect);
	rows.all_held = indirect.all_bytes;
}

static bool
is_named(const struct report_options *options, const char *name)
{
	for (int i = 0; i < options->ncaches; i++)
		if (strcmp(options->caches[i], name) == 0)
			return true;
	return options->ncaches == 0;
}

static void
count_slab(const struct slab *s)
{
	const struct model *model = rows.model;
	const uint64_t *bits = s->live;
	struct site_block rest = {.weight = 1,
	    .cache = &model->caches[s->cache],
	    .bytes = model->caches[s->cache].bufsize};

	/* After a search for leaks, the blocks that it has reached. */
	if (s->marked != NULL)
		bits = s->marked;
	if (s->records == 0)
		rest.n = bits_count(bits, s->nchunks);
	for (unsigned i = 0; i < s->nchunks; i++) {
		if (!bit_get(bits, i))
			continue;
		if (s->records != 0) {
			sites_add_buffer(&rows, s, NULL, i, 0);
			continue;
		}
		rest.at = slab_chunk_at(model, s, i);
		sites_add(&rows, &rest);
		return;
	}
}

static bool
is_cache(const struct model *model, const char *name)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (strcmp(model->caches[i].name, name) == 0)
			return true;
	return strcmp(name, SAMPLES) == 0 || strcmp(name, LARGE) == 0;
}

static void
check_users(struct model *model, const struct report_options *options)
{
	bool unrecorded = model->sampling_mean == 0 && model->nsamples == 0 &&
			  (options->sum != NULL || !audit_is_on(model));

	if (unrecorded && !model_can_sample(model))
		fail_with(EXIT_ERROR, "users: checked blocks are not sampled");
	if (unrecorded)
		fail_with(EXIT_ERROR,
		    "users: no callers are recorded; \"umem ctl %s "
		    "sample=default\" records those of later blocks",
		    model->target->live ? xprint("%d", model->target->pid)
					: "PID");
	for (int i = 0; i < options->ncaches; i++)
		if (!is_cache(model, options->caches[i]))
			fail_with(EXIT_ERROR, "users: no cache %s",
			    options->caches[i]);
}

static void
find_users(struct model *model, const struct report_options *options)
{
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct cache *c = &model->caches[model->slabs[i].cache];

		if (is_named(options, c->name))
			count_slab(&model->slabs[i]);
	}
	for (size_t i = 0; i < model->nlarges; i++) {
		const struct large *large = &model->larges[i];
		const char *name = large->cache != NULL    ? large->cache->name
				   : large->sample != NULL ? SAMPLES
							   : LARGE;

		if (!large->waits && is_named(options, name) &&
		    (large->marked || !options->reachable))
			sites_add_buffer(&rows, NULL, large, 0, 0);
	}
}

#define SUM(member) offsetof(struct sample_sums, member)
static const struct sum_kind sum_kinds[] = {
    {SUM(allocated), SUM(live), "IN USE", "bytes_in_use",
	" allocated since sampling began"},
    {SUM(lived_s), SUM(lived_ms), "<1 MS", "bytes_below_1_ms",
	" allocated that lived less than a second"},
    {SUM(peak), 0, NULL, NULL, NULL}};
#undef SUM

/* For model_each_stack(). */
static void
add_sum(const struct sample_sums *sums, void *arg)
{
	struct sites *sites = arg;
	const struct sum_kind *kind = sites->sum_kind;
	const char *at = (const char *)sums;
	const struct sample_sum *sum = (const void *)(at + kind->sum);
	const struct sample_sum *part = (const void *)(at + kind->part);

	/* The stack of the free of a guarded sample has no sums. */
	if (sum->blocks != 0)
		sites_add_sum(
		    sites, sums, sum, kind->part != 0 ? part->bytes : 0);
}

static void
find_sums(struct sites *sites, const struct sum_kind *kind)
{
	sites->sum_kind = kind;
	peak_age = model_each_stack(sites->model, add_sum, sites);
}

/* Counts the blocks of the report. */
static void
report_find(struct model *model, const struct report_options *options)
{
	rows = (struct sites){.model = model,
	    .are_leaks = options->of_leaks,
	    .caller = options->caller,
	    .now = audit_now(model)};
	if (!options->of_leaks && !options->reachable)
		check_users(model, options);
	if (options->of_leaks)
		find_leaks(model);
	else if (options->sum != NULL)
		find_sums(&rows, options->sum);
	else
		find_users(model, options);
	sites_finish(&rows);
	rows.suppressed_bytes += excused_bytes + indirect.suppressed_bytes;
	rows.suppressed_blocks += excused_blocks + indirect.suppressed_blocks;
}

size_t
report_looks(const char *target, bool of_users, bool stacks, struct look *looks)
{
	struct report_options options = {.of_leaks = !of_users};
	struct model *model =
	    snapshot_open(target, of_users ? 0 : MODEL_POINTERS);

	report_find(model, &options);
	looks[0] = look_of_sites(&rows, SITE_CALLERS, stacks);
	if (of_users)
		return 1;
	options = (struct report_options){.reachable = true};
	report_find(model, &options);
	looks[1] = look_of_sites(&rows, SITE_CALLERS, stacks);
	looks[1].kind = LOOK_REACHABLE;
	return 2;
}

static double
seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Prints the memory and time of the search, and how long the stop was. */
static void
print_cost(const struct target *target, double elapsed)
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

/* A process that grows without a leak needs other commands. */
static void
print_nothing(struct model *model, const struct report_options *options)
{
	int pid = model->target->pid;

	puts(sites_none_text(options->of_leaks, options->caller));
	if (options->caller != NULL || !options->of_leaks ||
	    !model->target->live || model->target->borrowed)
		return;
	puts("\nIf the process grows, it can still reach these blocks:");
	if (model->sampling_mean == 0 && !audit_is_on(model) &&
	    model_can_sample(model))
		printf("umem ctl %d sample=512k  records callers from now on\n",
		    pid);
	printf("umem users %d          by which callers it holds memory\n"
	       "umem diff -u -t 60 %d  which of them grow in a minute\n"
	       "umem status %d         how much of its memory is free\n",
	    pid, pid, pid);
}

/* Returns the relation of the blocks of all rows to the program. */
static const char *
verb_of(const struct report_options *options)
{
	if (options->sum == NULL)
		return options->of_leaks ? " leaked" : " allocated";
	if (options->sum->verb != NULL)
		return options->sum->verb;
	return xprint(" allocated at the peak %s ago", site_age_text(peak_age));
}

static void
print_total(const struct report_options *options, bool estimated)
{
	printf("%s",
	    sites_sum_text(rows.bytes + indirect.bytes,
		rows.blocks + indirect.blocks, estimated, verb_of(options)));
	if (indirect.nrows != 0)
		printf(", %s", sites_sum_text(indirect.bytes, indirect.blocks,
				   estimated, " indirect"));
	puts("\n");
}

static void
print_tables(struct model *model, const struct report_options *options)
{
	double all = rows.bytes + indirect.bytes;
	bool estimated = rows.estimated || indirect.estimated;

	if (rows.nrows + indirect.nrows == 0) {
		print_nothing(model, options);
		return;
	}
	print_total(options, estimated);
	if (rows.nrows != 0)
		sites_print(&rows, all, options->every);
	if (indirect.nrows != 0) {
		puts("\nINDIRECT, by the call sites that allocated it; only "
		     "leaked blocks point to it:");
		sites_print(&indirect, all, options->every);
	}
	if (options->details) {
		sites_print_details(&rows, "", options->every);
		sites_print_details(&indirect, ", indirect", options->every);
	}
	sites_print_notes(
	    model, estimated, rows.has_unknown || indirect.has_unknown);
}

static void
json_rows(struct sites *sites, const char *kind)
{
	for (size_t i = 0; i < sites->nrows; i++) {
		json_open(NULL, '{');
		if (sites->are_leaks)
			json_text("kind", kind);
		site_json(sites, &sites->rows[i]);
		if (sites->are_leaks)
			json_rounded("indirect_bytes", sites->rows[i].held);
		if (sites->sum_kind != NULL && sites->sum_kind->part != 0)
			json_rounded(
			    sites->sum_kind->part_key, sites->rows[i].part);
		json_close();
	}
}

static void
report_json(const struct model *model)
{
	json_open(NULL, '{');
	json_open(rows.are_leaks ? "leaks" : "users", '[');
	json_rows(&rows, "direct");
	json_rows(&indirect, "indirect");
	json_close();
	if (peak_age != 0)
		json_number("peak_age_ns", peak_age);
	if (suppress_is_on()) {
		json_rounded("suppressed_blocks", rows.suppressed_blocks);
		json_rounded("suppressed_bytes", rows.suppressed_bytes);
	}
	json_number("sample_bytes", model->sampling_mean);
	json_number("samples_taken", model->ntaken);
	json_number("samples_not_kept", model->nlost);
	json_number("interval_doubled", model->nhalved);
	json_rounded("blocks", rows.blocks + indirect.blocks);
	json_rounded("bytes", rows.bytes + indirect.bytes);
	json_close();
}

/* A profile has the blocks in use, and all that were allocated. */
static void
print_pprof(struct model *model, const struct report_options *options)
{
	struct sites allocated = {.model = model, .caller = options->caller};

	if (!options->of_leaks && options->ncaches == 0) {
		find_sums(&allocated, &sum_kinds[0]);
		sites_finish(&allocated);
	}
	pprof_write(&rows, &allocated);
}

const char *
page_title(const char *subject, struct target *target)
{
	const char *name = target->live ? program_name(target) : NULL;
	const char *of = plain_text(target->name, SIZE_MAX);

	return name == NULL ? xprint("%s of %s", subject, of)
			    : xprint("%s of %s (%s)", subject, name, of);
}

/* Saves and prints the rows, which are finished. */
static void
print_form(struct model *model, const struct report_options *options)
{
	struct look look;

	if (options->save != NULL) {
		look = look_of_sites(&rows, SITE_CALLERS, true);
		look_save(&look, options->save);
	}
	if (options->form == FORM_FOLDED || options->form == FORM_HTML)
		look = look_of_sites(&rows, UINT_MAX, true);
	if (options->form == FORM_FOLDED)
		flame_write_folded(&look);
	else if (options->form == FORM_HTML)
		flame_write(&look, page_title("Memory", model->target),
		    verb_of(options));
	else if (options->form == FORM_PPROF)
		print_pprof(model, options);
	else if (json_wanted)
		report_json(model);
	else
		print_tables(model, options);
}

int
report_print(struct model *model, const struct report_options *options)
{
	double start = seconds_now();

	report_find(model, options);
	if (options->cost && options->form == 0 && !json_wanted)
		print_cost(model->target, seconds_now() - start);
	print_form(model, options);
	if (suppress_is_on() && options->form == 0 && !json_wanted)
		sites_print_suppressed(rows.suppressed_bytes,
		    rows.suppressed_blocks,
		    rows.suppressed_blocks > excused_blocks);
	return options->of_leaks && rows.nrows + indirect.nrows != 0
		   ? EXIT_FOUND
		   : EXIT_OK;
}

void
page_check(const char *command, const char *form)
{
	if (isatty(STDOUT_FILENO))
		fail_with(EXIT_ERROR, "%s: %s is not for a terminal; add >FILE",
		    command, form);
}

static void
check_form(const char *command, const struct report_options *options)
{
	int form = options->form;

	if (json_wanted && form != FORM_TABLES)
		fail_usage(command, "--json is another form of the output");
	if (options->sum != NULL && (form == FORM_PPROF || options->save))
		fail_usage(command, "no --pprof or --save of such sums");
	if (form == FORM_HTML || form == FORM_PPROF)
		page_check(command, form == FORM_HTML ? "--html" : "--pprof");
}

static void
read_suppressions(const char *path)
{
	suppress_read(path, EXIT_ERROR);
}

/* Reads the options and the arguments; returns the process or core. */
static const char *
parse_report_options(
    int argc, char **argv, int most, struct report_options *options)
{
	int sum = -1;
	const struct option_word words[] = {{"c", .text = &options->caller},
	    {"d", .flag = &options->details}, {"e", .flag = &options->every},
	    {"v", .flag = &options->cost}, {"save", .text = &options->save},
	    {"suppressions", .read = read_suppressions},
	    {"folded", .choice = &options->form, FORM_FOLDED},
	    {"html", .choice = &options->form, FORM_HTML},
	    {"pprof", .choice = &options->form, FORM_PPROF},
	    {"allocated", .choice = &sum, 0}, {"temporary", .choice = &sum, 1},
	    {"peak", .choice = &sum, 2}};
	char **arguments =
	    options_take(argc, argv, words, array_size(words), 1, most);

	if (sum >= 0)
		options->sum = &sum_kinds[sum];
	options->caches = arguments + 1;
	options->ncaches = argc - optind - 1;
	check_form(argv[0], options);
	return arguments[0];
}

int
command_leaks(int argc, char **argv)
{
	struct report_options options = {.of_leaks = true};
	const char *name = parse_report_options(argc, argv, 1, &options);

	if (options.sum != NULL)
		fail_usage(argv[0], "umem users has the sums");
	return report_print(snapshot_open(name, MODEL_POINTERS), &options);
}

int
command_users(int argc, char **argv)
{
	struct report_options options = {0};
	const char *name = parse_report_options(argc, argv, INT_MAX, &options);

	if (options.sum != NULL && options.ncaches != 0)
		fail_usage(argv[0], "sums of all caches only");
	return report_print(snapshot_open(name, 0), &options);
}
