/*
 * sites_print.c - tables of call sites, with their stacks, and as JSON
 */
#include <math.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/sites/suppress.h"
#include "tools/inspect/symbols/symbols.h"

/* Stacks of a row that are printed. */
#define STACKS_MAX 5

/* Columns of the terminal for a call site, for which others are left out. */
#define CALL_SITE_WANTED 40

/*
 * The columns before the call site.  On a narrow terminal, those with the
 * largest rank are left out.
 */
static const struct column {
	const char *title;
	size_t width;
	unsigned rank;
	enum {
		ALL = 7,
		OF_USERS = 1,
		OF_LEAKS = 2,
		OF_SUMS = 4
	} of;
} columns[] = {{"BYTES", 9, 0, ALL}, {"SHARE", 5, 3, ALL},
    {"BLOCKS", 9, 0, ALL}, {"INDIRECT", 8, 1, OF_LEAKS},
    {"PART", 8, 1, OF_SUMS}, {"OLDEST", 7, 4, OF_USERS | OF_LEAKS},
    {"PER MIN", 8, 2, OF_LEAKS}};

const char *
site_age_text(uint64_t age)
{
	uint64_t s = age / 1000000000;

	if (age == 0)
		return "-";
	if (s < 60)
		return xprint("%lus", s);
	if (s < 3600)
		return xprint("%lum%02lus", s / 60, s % 60);
	if (s < 86400)
		return xprint("%luh%02lum", s / 3600, s / 60 % 60);
	return xprint("%lud%02luh", s / 86400, s / 3600 % 24);
}

static void
print_addresses(const struct site_tally *t)
{
	uint64_t n = t->nseen < SITE_ADDRESSES ? t->nseen : SITE_ADDRESSES;

	for (uint64_t i = 0; i < n; i++)
		printf("    %lx\n", t->at[i]);
	if (t->nseen > n)
		printf(
		    "    %lu more; umem walk leak prints all\n", t->nseen - n);
}

static void
print_stacks(struct sites *sites, const struct site *site)
{
	for (size_t i = 0; i < site->ntallies && i < STACKS_MAX; i++) {
		const struct site_tally *t = site->tallies[i];
		bool estimated = fabs(t->blocks - (double)t->nseen) >= 0.5;
		struct audit audit = {.depth = t->depth, .stack = t->stack};

		printf("  %s in %s%s%s\n",
		    bytes_text(site_tally_total(t), estimated),
		    blocks_text(t->blocks, estimated),
		    t->example != 0 ? xprint(", one at %lx", t->example) : "",
		    t->depth == 0 ? ":" : ", allocated by:");
		if (t->depth != 0)
			audit_print_stack(sites->model, &audit, 4);
		else
			print_addresses(t);
	}
	if (site->ntallies > STACKS_MAX)
		printf("  %s\n",
		    counted(site->ntallies - STACKS_MAX, "more stack"));
}

/* Has the table this column, if there is space? */
static bool
is_column_of(const struct sites *sites, const struct column *c)
{
	if (sites->sum_kind == NULL)
		return c->of & (sites->are_leaks ? OF_LEAKS : OF_USERS);
	return c->of == ALL || (c->of == OF_SUMS && sites->sum_kind->part != 0);
}

/* Is there space for this column, and for all of smaller ranks? */
static bool
has_column(const struct sites *sites, size_t column)
{
	size_t width = print_width(), used = 1;

	if (!is_column_of(sites, &columns[column]))
		return false;
	for (size_t i = 0; i < array_size(columns); i++)
		if (columns[i].rank <= columns[column].rank &&
		    is_column_of(sites, &columns[i]))
			used += columns[i].width + 1;
	return columns[column].rank == 0 ||
	       (width > CALL_SITE_WANTED && used <= width - CALL_SITE_WANTED);
}

/* Prints the texts of the columns that there are; returns their width. */
static size_t
print_cells(const struct sites *sites, const char *const *texts)
{
	size_t used = 1;

	for (size_t i = 0; i < array_size(columns); i++)
		if (has_column(sites, i)) {
			printf("%*s ", (int)columns[i].width, texts[i]);
			used += columns[i].width + 1;
		}
	putchar(' ');
	return used;
}

static void
print_head(const struct sites *sites)
{
	const char *texts[array_size(columns)];

	for (size_t i = 0; i < array_size(columns); i++)
		texts[i] = columns[i].of == OF_SUMS && sites->sum_kind != NULL
			       ? sites->sum_kind->part_title
			       : columns[i].title;
	print_cells(sites, texts);
	puts("CALL SITE");
}

static void
print_row(struct sites *sites, const struct site *row, double all)
{
	bool about = row->estimated;
	const char *texts[array_size(columns)] = {
	    bytes_text(site_total(row), about),
	    xprint("%.0f%%", 100 * site_total(row) / all),
	    count_text(row->blocks, about),
	    row->held >= 0.5 ? bytes_text(row->held, about) : "-",
	    row->part >= 0.5 ? bytes_text(row->part, about) : "-",
	    site_age_text(row->oldest),
	    row->rate < 0 ? "-" : bytes_text(row->rate, about)};

	print_call_site(print_cells(sites, texts), row->name,
	    site_callers(sites, row, SITE_CALLERS));
}

void
sites_print(struct sites *sites, double all, bool every)
{
	double rest = 0;
	size_t n = sites->nrows;

	if (!every && n > SITES_ROWS + 1)
		n = SITES_ROWS;
	print_head(sites);
	for (size_t i = 0; i < n; i++)
		print_row(sites, &sites->rows[i], all);
	for (size_t i = n; i < sites->nrows; i++)
		rest += site_total(&sites->rows[i]);
	if (n < sites->nrows)
		printf("%9s %4.0f%% in %zu more rows; -e prints all\n",
		    bytes_text(rest, sites->estimated), 100 * rest / all,
		    sites->nrows - n);
}

void
sites_print_details(struct sites *sites, const char *suffix, bool every)
{
	for (size_t i = 0; i < sites->nrows; i++) {
		if (!every && i == SITES_ROWS)
			return;
		printf("\n%s%s\n", sites->rows[i].name, suffix);
		print_stacks(sites, &sites->rows[i]);
	}
}

void
sites_print_suppressed(double bytes, double blocks, bool estimated)
{
	size_t nused, n = suppress_count(&nused);

	printf("\n%s by %zu of %s\n",
	    sites_sum_text(bytes, blocks, estimated, " suppressed"), nused,
	    counted(n, "pattern"));
}

const char *
sites_none_text(bool are_leaks, const char *caller)
{
	return xprint("no %s%s%s found",
	    are_leaks ? "leaks" : "allocated blocks",
	    caller != NULL ? " from " : "", caller != NULL ? caller : "");
}

const char *
sites_sum_text(double bytes, double blocks, bool estimated, const char *verb)
{
	return xprint("%s%s in %s", bytes_text(bytes, estimated), verb,
	    blocks_text(blocks, estimated));
}

void
sites_print_notes(struct model *model, bool estimated, bool unknown)
{
	if (estimated)
		puts("\n~ is an estimate from samples.");
	symbols_print_advice(model->target);
	if (!unknown)
		return;
	if (model->sampling_mean != 0)
		printf("\nunknown: allocated before sampling began, or of a "
		       "size with so few bytes that\none sample in %s bytes "
		       "has missed it; %s.\n",
		    size_text(model->sampling_mean),
		    model->nhalved == 0
			? "a smaller interval misses less"
			: xprint("the interval was doubled %s,\nbecause "
				 "of %lu samples",
			      counted(model->nhalved, "time"),
			      layout_value(model->layout, L_SAMPLES_MAX)));
	else if (model->target->live && !model->target->borrowed &&
		 model_can_sample(model))
		printf("\nunknown: nothing recorded the caller. "
		       "\"umem ctl %d sample=default\"\nrecords it for later "
		       "allocations, \"umem run --debug\" for all blocks.\n",
		    model->target->pid);
	else
		puts("\nunknown: nothing recorded the caller, as "
		     "\"umem run --debug\" does.");
}

static void
tally_json(struct sites *sites, const struct site_tally *t)
{
	json_open(NULL, '{');
	json_rounded("bytes", t->bytes);
	json_rounded("blocks", t->blocks);
	json_number("seen", t->nseen);
	if (t->example != 0)
		json_address("example", t->example);
	json_open("frames", '[');
	for (unsigned i = 0; i < t->depth; i++)
		audit_json_frames(sites->model, t->stack[i]);
	json_close();
	json_close();
}

void
site_json(struct sites *sites, const struct site *site)
{
	json_text("call_site", site->name);
	json_rounded("bytes", site->bytes);
	json_rounded("blocks", site->blocks);
	json_bool("estimated", site->estimated);
	json_number("seen", site->nseen);
	if (site->oldest != 0)
		json_number("oldest_age_ns", site->oldest);
	if (site->rate >= 0)
		json_rounded("bytes_per_minute", site->rate);
	json_open("stacks", '[');
	for (size_t i = 0; i < site->ntallies; i++)
		tally_json(sites, site->tallies[i]);
	json_close();
}
